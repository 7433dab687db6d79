// The ordered list of each stage: what a step runs, where, when, and that sends meet their receives.
#include "plan/prove/VerifyParts.h"

#include <map>
#include <set>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;

class ScheduleChecks {
public:
  ScheduleChecks(Checks &checks, int64_t stage, const Place &place)
      : checks_(checks), violations_(checks.violations), index_(stage), stage_(checks.plan.stages[stage]),
        place_(place) {}

  void verify() {
    Place schedule = place_.field("schedule"), chunks = place_.field("chunks");
    for (size_t i = 0; i < stage_.schedule.size(); ++i)
      verifyStep(i, schedule.element(i));
    for (size_t i = 0; i < stage_.chunks.size(); ++i)
      violations_.expect(ran_.contains(static_cast<int64_t>(i)), chunks.element(i), "no step runs chunk '{}'",
                         stage_.chunks[i].name());
    for (const auto &[run, calls] : runs_) {
      const Chunk &chunk = stage_.chunks[run.first];
      violations_.expect(calls == static_cast<int64_t>(chunk.calls.size()), chunks.element(run.first),
                         "of the {} calls of chunk '{}' the steps run {} for microbatch {}",
                         chunk.calls.size(), chunk.name(), calls, run.second);
    }
  }

private:
  void verifyStep(size_t index, const Place &place) {
    const ScheduleStep &step = stage_.schedule[index];
    violations_.expect(step.microbatch >= -1 && step.microbatch < checks_.plan.microbatches, place,
                       "microbatch {} is neither -1 nor one of {}", step.microbatch,
                       checks_.plan.microbatches);
    for (int64_t wait : step.waits)
      violations_.expect(inRange(wait, index), place, "waits for step {}, which is not before it", wait);
    if (step.kind == Kind::run)
      verifyRun(step, place);
    else
      verifyTransfer(step, place);
  }

  void verifyRun(const ScheduleStep &step, const Place &place) {
    if (!violations_.expect(inRange(step.chunk, stage_.chunks.size()), place, "chunk {} is not one of {}",
                            step.chunk, stage_.chunks.size()))
      return;
    ran_.insert(step.chunk);
    const Chunk &chunk = stage_.chunks[step.chunk];
    verifyCalls(step, chunk, place);
    violations_.expect(
        isPerMicrobatch(chunk.task) == (step.microbatch >= 0), place,
        "chunk '{}' runs for microbatch {}; forward, backward, input and weight run for one, the "
        "others for -1",
        chunk.name(), step.microbatch);
    if (!violations_.expect(step.slots.size() == chunk.slotBytes.size(), place,
                            "binds {} slots, but chunk '{}' has {}", step.slots.size(), chunk.name(),
                            chunk.slotBytes.size()))
      return;
    Place slots = place.field("slots");
    for (size_t i = 0; i < step.slots.size(); ++i) {
      int64_t offset = step.slots[i];
      violations_.expect(
          offset % kAlignment == 0 && fitsInside(offset, chunk.slotBytes[i], stage_.bytes), slots.element(i),
          "offset {} must be a multiple of {}, and the slot's {} bytes inside the allocation of {} bytes",
          offset, kAlignment, chunk.slotBytes[i], stage_.bytes);
    }
  }

  // The step runs the calls of the chunk that come next for the microbatch.
  void verifyCalls(const ScheduleStep &step, const Chunk &chunk, const Place &place) {
    const auto calls = static_cast<int64_t>(chunk.calls.size());
    auto [next, isFirst] = runs_.try_emplace({step.chunk, step.microbatch}, 0);
    violations_.expect(isFirst || step.callCount >= 0, place, "chunk '{}' runs twice for microbatch {}",
                       chunk.name(), step.microbatch);
    if (violations_.expect(step.firstCall == next->second, place,
                           "chunk '{}' runs from call {} on for microbatch {}, expected {}", chunk.name(),
                           step.firstCall, step.microbatch, next->second) &&
        violations_.expect(step.callCount >= -1 && step.callCount <= calls - step.firstCall, place,
                           "{} calls from {} on are not inside the {} of chunk '{}'", step.callCount,
                           step.firstCall, calls, chunk.name()))
      next->second = step.endCall(chunk.calls.size());
  }

  void verifyTransfer(const ScheduleStep &step, const Place &place) {
    violations_.expect(inRange(step.peer, checks_.plan.stages.size()) && step.peer != index_, place,
                       "peer {} is no other stage than {} below {}", step.peer, index_,
                       checks_.plan.stages.size());
    violations_.expect(step.value >= 0, place, "value = {} is negative", step.value);
    violations_.expect(step.bytes > 0 && fitsInside(step.offset, step.bytes, stage_.bytes), place,
                       "{} bytes from {} on are not inside the allocation of {} bytes", step.bytes,
                       step.offset, stage_.bytes);
    int64_t width = leastElementBytes(checks_.plan);
    violations_.expect(step.offset % width == 0 && step.bytes % width == 0, place,
                       "offset {} and bytes {} must be multiples of {}", step.offset, step.bytes, width);
  }

  Checks &checks_;
  Violations &violations_;
  int64_t index_;
  const StagePlan &stage_;
  const Place &place_;
  std::set<int64_t> ran_;
  std::map<std::pair<int64_t, int64_t>, int64_t> runs_; // (chunk, microbatch) -> the call that comes next
};

// --- Sends and receives match in order, per ordered pair of stages -----------------------------------------

using Pair = std::pair<int64_t, int64_t>;              // from, to
using Transfers = std::map<Pair, std::vector<size_t>>; // indices of steps

void collect(const Plan &plan, Transfers &sends, Transfers &receives) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    int64_t stage = static_cast<int64_t>(s);
    for (size_t i = 0; i < plan.stages[s].schedule.size(); ++i) {
      const ScheduleStep &step = plan.stages[s].schedule[i];
      if (step.kind != Kind::run && inRange(step.peer, plan.stages.size()))
        (step.kind == Kind::send ? sends[{stage, step.peer}] : receives[{step.peer, stage}]).push_back(i);
    }
  }
}

void matchPair(Checks &checks, Pair pair, const std::vector<size_t> &sends,
               const std::vector<size_t> &receives) {
  auto [from, to] = pair;
  Place root, stages = root.field("stages"), sender = stages.element(from), receiver = stages.element(to);
  Place sendSteps = sender.field("schedule"), receiveSteps = receiver.field("schedule");
  if (!checks.violations.expect(sends.size() == receives.size(), sendSteps,
                                "has {} sends to stage {}, which has {} recvs", sends.size(), to,
                                receives.size()))
    return;
  for (size_t i = 0; i < sends.size(); ++i) {
    const ScheduleStep &send = checks.plan.stages[from].schedule[sends[i]];
    const ScheduleStep &receive = checks.plan.stages[to].schedule[receives[i]];
    bool same =
        send.value == receive.value && send.microbatch == receive.microbatch && send.bytes == receive.bytes;
    if (!checks.violations.expect(
            same, sendSteps.element(sends[i]),
            "sends value {} of microbatch {} ({} bytes), but {} receives value {} of {} ({} bytes)",
            send.value, send.microbatch, send.bytes, receiveSteps.element(receives[i]).text(), receive.value,
            receive.microbatch, receive.bytes))
      return; // what follows is out of step
  }
}

} // namespace

void verifySchedules(Checks &checks) {
  Place root, stages = root.field("stages");
  for (size_t i = 0; i < checks.plan.stages.size(); ++i) {
    Place here = stages.element(i);
    ScheduleChecks(checks, static_cast<int64_t>(i), here).verify();
  }
  Transfers sends, receives;
  collect(checks.plan, sends, receives);
  for (const auto &[pair, steps] : sends)
    matchPair(checks, pair, steps, receives[pair]);
  for (const auto &[pair, steps] : receives)
    if (!sends.contains(pair))
      matchPair(checks, pair, {}, steps);
}

} // namespace mgc::plan
