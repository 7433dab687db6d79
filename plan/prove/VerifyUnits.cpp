// See VerifyUnits.h.
#include "plan/prove/VerifyUnits.h"

#include "plan/prove/Bytes.h"

#include <algorithm>
#include <set>

namespace mgc::plan {

namespace {

class UnitUse {
public:
  UnitUse(const Plan &plan, int64_t index, const Chunk &chunk, const Units &units, Flows &flows, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), chunk_(chunk), units_(units), flows_(flows),
        problems_(problems) {
    for (const Region &region : stage_.regions)
      if (region.kind == "units")
        regions_.add({region.offset, region.offset + region.bytes});
      else if (region.kind == "gathered")
        gathered_.add({region.offset, region.offset + region.bytes});
  }

  // Units that were added to their slices, and where values of one unit at a time were gathered.
  struct Used {
    std::set<UnitPlace> added;
    std::set<UnitBytes> gathered;
  };
  Used check() {
    const std::vector<Call> calls = expandedCalls(chunk_);
    for (const Call &call : calls)
      run(call);
    call_ = nullptr;
    for (const auto &[whole, made] : gradients_)
      report("ends with the gradient at {} that no call has summed up", whole.offset);
    for (const auto &[sum, units] : sums_)
      report("ends with the sum at {} that no call has added to a slice", sum.offset);
    return std::move(used_);
  }

private:
  void run(const Call &call) {
    const Program &program = plan_.programs[call.program];
    call_ = &call;
    std::optional<UnitSlice> slice;
    std::vector<size_t> inRegion, gathered; // segments; gathered: in the memory that has the values of all units
    bool isOther = false;                   // binds something else, but for the frame
    for (size_t i = 0; i < call.segments.size(); ++i) {
      const UnitBytes at = bytesAt(i);
      if (at.bytes == 0 || static_cast<int64_t>(i) == program.frame)
        continue;
      const bool isInAllocation = call.segments[i].slot < 0;
      if (isInAllocation && regions_.meets({at.offset, at.offset + at.bytes}))
        inRegion.push_back(i);
      else if (isInAllocation && gathered_.meets({at.offset, at.offset + at.bytes}))
        gathered.push_back(i);
      else if (const auto found = isInAllocation ? units_.sliceAt(at) : std::nullopt)
        isOther |= slice && *slice != *found, slice = found;
      else
        isOther = true;
    }
    const bool isOfOne = !isOther && inRegion.size() + gathered.size() == 1;
    const std::optional<UnitBytes> whole =
        isOfOne ? std::optional(bytesAt(inRegion.empty() ? gathered[0] : inRegion[0])) : std::nullopt;
    if (slice && slice->role == StateRole::value)
      return gather(slice->unit, whole);
    if (slice)
      return accumulate(slice->unit, whole);
    if (inRegion.size() == 2 && !isOther && gathered.empty())
      return sum(bytesAt(inRegion[0]), bytesAt(inRegion[1]));
    if (!inRegion.empty() && !isOther && gathered.empty())
      return clear(whole);
    for (const size_t segment : gathered)
      verifyOnlyRead(segment);
    for (const size_t segment : inRegion)
      use(segment);
  }

  UnitBytes bytesAt(size_t segment) const {
    return {call_->segments[segment].offset, plan_.programs[call_->program].segmentBytes[segment]};
  }

  static bool meet(const UnitBytes &a, const UnitBytes &b) {
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }
  // Another unit comes into the memory.
  void makeRoom(const UnitBytes &whole, std::string_view how) {
    for (const auto &[other, made] : gradients_)
      if (meet(other, whole))
        report("{} over the gradient at {} before it was summed up", how, other.offset);
    for (const auto &[other, units] : sums_)
      if (meet(other, whole))
        report("{} over the sum at {} before it was added to a slice", how, other.offset);
    std::erase_if(values_, [&](const auto &gathered) { return meet(gathered.first, whole); });
  }

  void gather(const UnitPlace &unit, const std::optional<UnitBytes> &whole) {
    if (!whole || !units_.isWhole(*whole, unit, StateRole::value))
      return report("gathers unit {} of bucket {} to where its values are not expected", unit.unit, nameOf(unit));
    if (gathered_.meets({whole->offset, whole->offset + whole->bytes}))
      return; // no other unit is ever there
    used_.gathered.insert(*whole);
    makeRoom(*whole, "gathers values");
    values_[*whole] = unit;
  }

  void clear(const std::optional<UnitBytes> &whole) {
    if (!whole || !units_.isGradient(*whole))
      return report("clears what is not the gradient of one unit");
    makeRoom(*whole, "clears a gradient");
    gradients_[*whole] = {};
  }

  // Values that were gathered are read; all else is a gradient that is added to.
  void use(size_t segment) {
    const UnitBytes at = bytesAt(segment);
    const auto gathered = std::ranges::find_if(values_, [&](const auto &entry) { return meet(entry.first, at); });
    if (gathered == values_.end())
      return addTo(at);
    const std::vector<Units::View> views = units_.viewsAt(at, StateRole::unitValue, call_->instance);
    if (std::ranges::none_of(views, [&](const Units::View &view) {
          return view.unit == gathered->second && view.whole == gathered->first;
        }))
      return report("binds bytes [{}, {}), which are no values of its instance in unit {} of bucket {}, which was "
                    "gathered there",
                    at.offset, at.offset + at.bytes, gathered->second.unit, nameOf(gathered->second));
    verifyOnlyRead(segment);
  }

  void verifyOnlyRead(size_t segment) {
    const UnitBytes at = bytesAt(segment);
    const std::vector<int64_t> places = placesOf(*call_);
    if (!flows_.of(call_->program, places).segments[places[segment]].writes.ranges().empty())
      report("writes values that were gathered, bytes [{}, {})", at.offset, at.offset + at.bytes);
  }

  void addTo(const UnitBytes &at) {
    const std::vector<Units::View> views = units_.viewsAt(at, StateRole::unitGradient, call_->instance);
    for (auto &[whole, made] : gradients_) {
      std::set<UnitPlace> possible;
      for (const Units::View &view : views)
        if (view.whole == whole && (made.by != call_ || made.units.contains(view.unit)))
          possible.insert(view.unit);
      if (possible.empty() || (made.by && made.by != call_))
        continue;
      made = {call_, std::move(possible)};
      return;
    }
    report("binds bytes [{}, {}), which are neither values of a unit that was gathered for its instance nor a gradient "
           "of one that was cleared for it",
           at.offset, at.offset + at.bytes);
  }

  // One of the two is a gradient, the other memory for its sum.
  void sum(UnitBytes whole, UnitBytes sum) {
    if (!gradients_.contains(whole))
      std::swap(whole, sum);
    std::set<UnitPlace> possible;
    if (const auto found = gradients_.find(whole); found != gradients_.end())
      std::ranges::copy_if(found->second.units, std::inserter(possible, possible.end()), [&](const UnitPlace &unit) {
        return units_.isWhole(whole, unit, StateRole::gradientSlice) && units_.isSum(sum, unit);
      });
    if (possible.empty())
      return report("sums up to bytes [{}, {}) what is no gradient of a unit whose sum is there", sum.offset,
                    sum.offset + sum.bytes);
    gradients_.erase(whole);
    makeRoom(sum, "sums up a gradient");
    sums_[sum] = std::move(possible);
  }

  void accumulate(const UnitPlace &unit, const std::optional<UnitBytes> &sum) {
    const auto found = sum ? sums_.find(*sum) : sums_.end();
    if (found == sums_.end() || !found->second.contains(unit))
      return report("adds to the slice of unit {} of bucket {} what is not the sum of this unit's gradients", unit.unit,
                    nameOf(unit));
    sums_.erase(found);
    used_.added.insert(unit);
  }

  const std::string &nameOf(const UnitPlace &unit) const { return stage_.buckets[unit.bucket].name; }

  template <typename... Args> void report(fmt::format_string<Args...> format, Args &&...args) {
    problems_.add(
        "stage {} chunk {}: {}{}", index_, chunk_.name(),
        call_ ? fmt::format("the call of '{}' for instance {} ", plan_.programs[call_->program].name, call_->instance)
              : "",
        fmt::format(format, std::forward<Args>(args)...));
  }

  const Plan &plan_;
  int64_t index_;
  const StagePlan &stage_;
  const Chunk &chunk_;
  const Units &units_;
  Flows &flows_;
  Problems &problems_;
  ByteSet regions_, gathered_;
  const Call *call_ = nullptr;
  // The call that adds to it, and the units whose parameters have the bytes that it adds to; none yet.
  struct Made {
    const Call *by = nullptr;
    std::set<UnitPlace> units;
  };
  std::map<UnitBytes, Made> gradients_;           // cleared, and not yet summed up
  std::map<UnitBytes, std::set<UnitPlace>> sums_; // not yet added; the units that they may be of
  std::map<UnitBytes, UnitPlace> values_;         // gathered
  Used used_;
};

} // namespace

void verifyUnits(const Plan &plan, int64_t stage, const Units &units, Flows &flows, Problems &problems) {
  if (units.empty())
    return;
  std::set<UnitPlace> added;
  std::set<UnitBytes> gathered;
  for (const Chunk &chunk : plan.stages[stage].chunks)
    if (isPerMicrobatch(chunk.task)) {
      UnitUse::Used used = UnitUse(plan, stage, chunk, units, flows, problems).check();
      added.merge(used.added), gathered.merge(used.gathered);
    }
  for (const Bucket &bucket : plan.stages[stage].buckets)
    for (const State &state : bucket.states)
      if (state.role == StateRole::unitValue && !gathered.contains({state.offset, bytesOf(plan, bucket, state)}))
        problems.add("stage {}: no call gathers values of bucket {} to '{}' at {}", stage, bucket.name, state.name,
                     state.offset);
  for (const auto &[bytes, slice] : units.slices())
    if (slice.role == StateRole::gradientSlice && !added.contains(slice.unit))
      problems.add("stage {}: no call adds a gradient to the slice of unit {} of bucket {}", stage, slice.unit.unit,
                   plan.stages[stage].buckets[slice.unit.bucket].name);
}

} // namespace mgc::plan
