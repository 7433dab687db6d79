// See UnitCalls.h.
#include "planner/search/UnitCalls.h"

#include <algorithm>
#include <deque>
#include <set>

namespace mgc::planner {

namespace {

struct PendingUnit {
  size_t call; // the call that it gathers values for, or sums up the gradient of
  bool isSum;
  int64_t bucket;
  double left; // seconds that are not hidden
};

} // namespace

UnitPlaces::UnitPlaces(const StageContents &stage, const Blocks &blocks) {
  std::map<std::string_view, std::vector<const ModelBlock *>> variants; // by base
  for (const auto &[name, block] : blocks)
    variants[block.base].push_back(&block);
  for (const StageContents::Place &place : stage.places)
    for (const ModelBlock *block : variants[place.block])
      places_[{block, place.argument}].push_back({place.first, place.count, place.bucket});
}

const UnitPlaces::Places &UnitPlaces::of(const ModelBlock &block, int64_t argument) const {
  static const Places none;
  const auto found = places_.find({&block, argument});
  return found == places_.end() ? none : found->second;
}

// Adds the buckets that hold the argument of the block's forward.
void UnitCalls::addBuckets(const Call &call, int64_t argument, std::set<int64_t> &buckets) const {
  for (const UnitPlaces::Place &place : places_.of(*call.instance->block, argument))
    if (call.instance->number >= place.first && call.instance->number < place.first + place.count)
      buckets.insert(place.bucket);
}

// In ascending order, each once.
std::vector<int64_t> UnitCalls::bucketsOf(const Call &call, bool gradients) const {
  std::set<int64_t> buckets;
  if (gradients) {
    for (const BlockFunction::Result &result : call.function->results)
      if (result.kind == BlockFunction::ResultKind::grad)
        addBuckets(call, result.index, buckets);
  } else {
    for (const BlockFunction::Argument &argument : call.function->arguments)
      if (argument.kind == BlockFunction::ArgumentKind::parameter)
        addBuckets(call, argument.index, buckets);
  }
  return {buckets.begin(), buckets.end()};
}

// Buckets by how much hides them before the call reads some of their parameters.
std::vector<std::pair<double, int64_t>> UnitCalls::readsOf(const Call &call) const {
  std::map<int64_t, double> reads;
  for (const auto &[argument, before] : call.hidingBefore) {
    std::set<int64_t> buckets;
    addBuckets(call, argument, buckets);
    for (const int64_t bucket : buckets) {
      const auto [known, isNew] = reads.try_emplace(bucket, before);
      known->second = std::min(known->second, before);
    }
  }
  std::vector<std::pair<double, int64_t>> ordered;
  for (const auto &[bucket, before] : reads)
    ordered.emplace_back(before, bucket);
  std::ranges::sort(ordered);
  return ordered;
}

double UnitCalls::secondsBeside(const std::vector<Call> &calls, bool isFirst) const {
  double seconds = 0;
  std::deque<PendingUnit> pending;
  const auto hide = [&](double time) {
    for (PendingUnit &one : pending) {
      const double part = std::min(time, one.left);
      time -= part, one.left -= part, seconds -= part;
    }
  };
  // bucket: -1 is any.
  const auto waitFor = [&](size_t call, bool isSum, int64_t bucket = -1) {
    const auto last = std::find_if(pending.rbegin(), pending.rend(), [&](const PendingUnit &one) {
      return one.call == call && one.isSum == isSum && (bucket < 0 || one.bucket == bucket);
    });
    pending.erase(pending.begin(), last.base());
  };
  const auto start = [&](size_t call, bool isSum, int64_t bucket, double time) {
    seconds += time;
    if (hides_ && time > 0)
      pending.push_back({call, isSum, bucket, time});
  };
  std::vector<bool> isGathered(calls.size());
  const auto gather = [&](size_t n) {
    if (n >= calls.size() || isGathered[n])
      return;
    isGathered[n] = true;
    for (const int64_t bucket : calls[n].gathersOnce)
      start(n, false, bucket, prices_.units[size_t(bucket)].gather);
    if (!calls[n].function)
      return;
    for (const int64_t bucket : bucketsOf(calls[n], false))
      if (const GatherTime time = stage_.gathers[size_t(bucket)];
          time == GatherTime::use || (time == GatherTime::microbatch && !calls[n].keepsGathered))
        start(n, false, bucket, prices_.units[size_t(bucket)].gather);
  };
  const bool isAhead = stage_.training->overlapsParamGather && !isInLine_,
             sumsBeside = stage_.training->overlapsGradReduce && !isInLine_;
  std::optional<size_t> added; // the call whose sums wait to be added
  const auto add = [&](std::optional<size_t> n) {
    if (!n)
      return;
    waitFor(*n, true);
    for (const int64_t bucket : bucketsOf(calls[*n], true))
      seconds += prices_.units[size_t(bucket)].accumulate;
  };
  size_t ahead = 0; // the call whose units were gathered last
  for (size_t n = 0; n < calls.size(); ++n) {
    gather(n);
    if (isFirst && n == ahead) {
      ++ahead;
      while (ahead < calls.size() && calls[ahead].gathersOnce.empty())
        ++ahead;
      gather(ahead);
    } else if (isAhead && !isFirst) {
      gather(n + 1);
    }
    if (!calls[n].function)
      continue;
    const std::vector<int64_t> made = bucketsOf(calls[n], true);
    for (const int64_t bucket : made)
      seconds += prices_.units[size_t(bucket)].clear;
    double hidden = 0; // by products before what was waited for last
    for (const auto &[before, bucket] : readsOf(calls[n])) {
      hide(std::max(0.0, before - hidden));
      hidden = std::max(hidden, before);
      waitFor(n, false, bucket);
    }
    hide(std::max(0.0, calls[n].hiding - hidden));
    if (sumsBeside)
      add(std::exchange(added, std::nullopt));
    for (const int64_t bucket : made)
      start(n, true, bucket, prices_.units[size_t(bucket)].sum);
    added = n;
    if (!sumsBeside)
      add(std::exchange(added, std::nullopt));
  }
  add(added);
  return seconds;
}

} // namespace mgc::planner
