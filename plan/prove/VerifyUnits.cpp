// See VerifyUnits.h.
#include "plan/prove/VerifyUnits.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/Bytes.h"

#include <algorithm>

namespace mgc::plan {

int64_t elementsOfBlock(const Plan &plan, const Parameter &parameter) {
  const bool isPart = parameter.rows.extent > 0;
  int64_t elements = isPart ? parameter.rows.extent : 1;
  for (size_t i = 0; i < (isPart ? size_t(parameter.rows.dims) : parameter.dims.size()); ++i)
    elements *= parameter.dims[i].size / groupSize(plan.mesh, parameter.dims[i].axes);
  return elements;
}

namespace {

// The gradient of a unit is cleared, then one call adds to it, then it is added to the unit's slice; only then comes the next one in
// its memory.
class UnitUse {
public:
  UnitUse(const Plan &plan, int64_t index, const Chunk &chunk, const Units &units, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), chunk_(chunk), units_(units), problems_(problems) {
    for (const Region &region : stage_.regions)
      if (region.kind == "units")
        regions_.add({region.offset, region.offset + region.bytes});
  }

  // The units that were added to their slices.
  std::set<UnitPlace> check() {
    const std::vector<Call> calls = expandedCalls(chunk_);
    for (const Call &call : calls)
      run(call);
    call_ = nullptr;
    for (const auto &[buffer, made] : active_)
      report("ends with a gradient at {} that no call has added to a slice", buffer.first);
    return std::move(added_);
  }

private:
  void run(const Call &call) {
    const Program &program = plan_.programs[call.program];
    call_ = &call;
    std::optional<UnitPlace> slice;
    std::vector<UnitBuffer> inRegion;
    bool isOther = false; // binds something else, but for the frame
    for (size_t i = 0; i < call.segments.size(); ++i) {
      const int64_t offset = call.segments[i].offset, bytes = program.segmentBytes[i];
      if (bytes == 0 || static_cast<int64_t>(i) == program.frame)
        continue;
      if (call.segments[i].slot < 0 && regions_.meets({offset, offset + bytes}))
        inRegion.emplace_back(offset, bytes);
      else if (const auto at = call.segments[i].slot < 0 ? units_.sliceAt(offset, bytes) : std::nullopt)
        isOther |= slice && *slice != *at, slice = at;
      else
        isOther = true;
    }
    if (slice)
      accumulate(*slice, inRegion, isOther);
    else if (!inRegion.empty() && !isOther)
      clear(inRegion);
    else
      for (const UnitBuffer &view : inRegion)
        addTo(view);
  }

  void clear(const std::vector<UnitBuffer> &buffers) {
    if (buffers.size() != 1 || !units_.isBuffer(buffers[0]))
      return report("clears what is not the gradient of one unit");
    for (const auto &[other, made] : active_)
      if (other.first < buffers[0].first + buffers[0].second && buffers[0].first < other.first + other.second)
        return report("clears a gradient at {} before it was added to a slice", other.first);
    active_[buffers[0]] = {};
  }

  void addTo(const UnitBuffer &view) {
    const std::vector<UnitPlace> views = units_.viewsAt(view.first, view.second, call_->instance);
    for (auto &[buffer, made] : active_) {
      std::set<UnitPlace> possible;
      for (const UnitPlace &unit : views)
        if (units_.bufferOf(unit.bucket) == buffer && (made.by != call_ || made.units.contains(unit)))
          possible.insert(unit);
      if (possible.empty() || (made.by && made.by != call_))
        continue;
      made = {call_, std::move(possible)};
      return;
    }
    report("adds to bytes [{}, {}), which are no gradient of its instance in a unit that was cleared for it",
           view.first, view.first + view.second);
  }

  void accumulate(const UnitPlace &slice, const std::vector<UnitBuffer> &buffers, bool isOther) {
    const UnitBuffer expected = units_.bufferOf(slice.bucket);
    const auto found = active_.find(expected);
    if (isOther || buffers != std::vector<UnitBuffer>{expected} || found == active_.end() ||
        !found->second.units.contains(slice))
      return report("adds to the slice of unit {} of bucket {} what is not this unit's gradient", slice.unit,
                    stage_.buckets[slice.bucket].name);
    active_.erase(found);
    added_.insert(slice);
  }

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
  Problems &problems_;
  ByteSet regions_;
  const Call *call_ = nullptr;
  // The call that adds to it, and the units whose parameters have the bytes that it adds to; none yet.
  struct Made {
    const Call *by = nullptr;
    std::set<UnitPlace> units;
  };
  std::map<UnitBuffer, Made> active_;
  std::set<UnitPlace> added_;
};

} // namespace

void verifyUnits(const Plan &plan, int64_t stage, const Units &units, Problems &problems) {
  if (units.empty())
    return;
  std::set<UnitPlace> added;
  for (const Chunk &chunk : plan.stages[stage].chunks)
    if (isPerMicrobatch(chunk.task))
      added.merge(UnitUse(plan, stage, chunk, units, problems).check());
  for (const auto &[place, unit] : units.slices())
    if (!added.contains(unit))
      problems.add("stage {}: no call adds a gradient to the slice of unit {} of bucket {}", stage, unit.unit,
                   plan.stages[stage].buckets[unit.bucket].name);
}

} // namespace mgc::plan
