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
  double left; // seconds that are not hidden
};

} // namespace

// In ascending order, each once.
std::vector<int64_t> UnitCalls::bucketsOf(const Call &call, bool gradients) const {
  std::set<int64_t> buckets;
  const auto add = [&](int64_t argument) {
    for (const StageContents::Place &place : stage_.places)
      if (place.argument == argument && place.block == call.instance->block->base &&
          call.instance->number >= place.first && call.instance->number < place.first + place.count)
        buckets.insert(place.bucket);
  };
  if (gradients) {
    for (const BlockFunction::Result &result : call.function->results)
      if (result.kind == BlockFunction::ResultKind::grad)
        add(result.index);
  } else {
    for (const BlockFunction::Argument &argument : call.function->arguments)
      if (argument.kind == BlockFunction::ArgumentKind::parameter)
        add(argument.index);
  }
  return {buckets.begin(), buckets.end()};
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
  const auto waitFor = [&](size_t call, bool isSum) {
    const auto last = std::find_if(pending.rbegin(), pending.rend(),
                                   [&](const PendingUnit &one) { return one.call == call && one.isSum == isSum; });
    pending.erase(pending.begin(), last.base());
  };
  const auto start = [&](size_t call, bool isSum, double time) {
    seconds += time;
    if (hides_ && time > 0)
      pending.push_back({call, isSum, time});
  };
  std::vector<bool> isGathered(calls.size());
  const auto gather = [&](size_t n) {
    if (n >= calls.size() || isGathered[n] || !calls[n].function)
      return;
    isGathered[n] = true;
    for (const int64_t bucket : calls[n].gathersOnce)
      start(n, false, prices_.units[size_t(bucket)].gather);
    for (const int64_t bucket : bucketsOf(calls[n], false))
      if (const GatherTime time = stage_.gathers[size_t(bucket)];
          time == GatherTime::use || (time == GatherTime::microbatch && !calls[n].keepsGathered))
        start(n, false, prices_.units[size_t(bucket)].gather);
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
    waitFor(n, false);
    hide(std::max(0.0, calls[n].time.products + calls[n].time.attention - cost::total(calls[n].time.hidden)));
    if (sumsBeside)
      add(std::exchange(added, std::nullopt));
    for (const int64_t bucket : made)
      start(n, true, prices_.units[size_t(bucket)].sum);
    added = n;
    if (!sumsBeside)
      add(std::exchange(added, std::nullopt));
  }
  add(added);
  return seconds;
}

} // namespace mgc::planner
