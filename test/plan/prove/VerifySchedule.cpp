// See VerifySchedule.h. A run touches the memory of its slots and of its calls' segments in the
// allocation; reads and writes are not told apart, so any touch of memory in flight needs an order. In flight are
// values that travel between stages, and the memory that runs of task gradients touch.
#include "test/plan/prove/VerifySchedule.h"

#include "compiler/schedule/Happens.h"
#include "test/plan/prove/Match.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Checked.h"

#include <algorithm>
#include <map>

namespace mgc::schedule {
namespace {

using plan::Chunk;
using plan::Collective;
using plan::ExpandedStep;
using plan::Plan;
using plan::StagePlan;

bool inside(int64_t value, size_t bound) { return 0 <= value && value < int64_t(bound); }

std::string describe(const StagePlan &stage, const ExpandedStep &step) {
  if (step.kind == ExpandedStep::Kind::run)
    return step.microbatch < 0 ? fmt::format("run {}", stage.chunks[step.chunk].name())
                               : fmt::format("run {} microbatch {}", stage.chunks[step.chunk].name(), step.microbatch);
  bool isSend = step.kind == ExpandedStep::Kind::send;
  return fmt::format("{} value {} microbatch {} {} stage {}", isSend ? "send" : "recv", step.value, step.microbatch,
                     isSend ? "to" : "from", step.peer);
}

// The lists of all stages and the calls of their chunks, with repeats run.
struct Lists {
  explicit Lists(const Plan &plan) {
    for (const StagePlan &stage : plan.stages) {
      steps.push_back(plan::expandedSchedule(stage));
      std::vector<std::vector<plan::Call>> &ofStage = calls.emplace_back();
      for (const Chunk &chunk : stage.chunks)
        ofStage.push_back(plan::expandedCalls(chunk));
    }
  }
  std::vector<std::vector<ExpandedStep>> steps;            // by stage
  std::vector<std::vector<std::vector<plan::Call>>> calls; // by stage and chunk
};

// --- Meetings: collectives between stages ------------------------------------------------------------------

class NetworkBuilder {
public:
  NetworkBuilder(const Plan &plan, const Lists &lists) : plan(plan), lists(lists) {
    for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s)
      everyone.push_back(s);
  }

  Network build(Problems &problems) {
    for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
      std::vector<std::vector<std::vector<NetworkStep::Meeting>>> meetings; // by chunk and call
      for (size_t chunk = 0; chunk < plan.stages[s].chunks.size(); ++chunk)
        meetings.push_back(meetingsOf(plan.stages[s].chunks[chunk], lists.calls[s][chunk], s, problems));
      std::vector<NetworkStep> &steps = network.stages.emplace_back();
      for (const ExpandedStep &step : lists.steps[s]) {
        NetworkStep out{
            NetworkStep::Kind(step.kind), step.peer, step.value, step.microbatch, step.bytes, &step.waits, {}, 0};
        if (step.kind == ExpandedStep::Kind::run) {
          const Chunk &chunk = plan.stages[s].chunks[step.chunk];
          out.ofGradients = chunk.task == plan::Task::gradients;
          for (int64_t call = step.firstCall; call < step.endCall(int64_t(lists.calls[s][step.chunk].size())); ++call)
            out.meetings.insert(out.meetings.end(), meetings[step.chunk][call].begin(),
                                meetings[step.chunk][call].end());
          if (out.ofGradients && !out.meetings.empty())
            problems.add("stage {} chunk {}: {} is a collective between stages; gradients has those inside one", s,
                         chunk.name(), out.meetings.front().what);
        }
        steps.push_back(std::move(out));
      }
    }
    for (const auto &[stages, index] : groupIds)
      network.groups[index] = stages;
    network.describe = [this](int64_t stage, int64_t step) {
      return describe(plan.stages[stage], lists.steps[stage][step]);
    };
    return std::move(network);
  }

private:
  std::vector<std::vector<NetworkStep::Meeting>> meetingsOf(const Chunk &chunk, const std::vector<plan::Call> &calls,
                                                            int64_t stage, Problems &problems) {
    std::vector<std::vector<NetworkStep::Meeting>> all; // by call
    for (const plan::Call &call : calls) {
      std::vector<NetworkStep::Meeting> &meetings = all.emplace_back();
      for (const plan::Instruction &instruction : plan.programs[call.program].instructions) {
        const auto *collective = std::get_if<Collective>(&instruction.body);
        std::vector<int64_t> stages = collective ? stagesOf(*collective) : std::vector<int64_t>();
        if (stages.empty())
          continue;
        if (!std::all_of(stages.begin(), stages.end(), [&](int64_t s) { return inside(s, plan.stages.size()); }) ||
            std::find(stages.begin(), stages.end(), stage) == stages.end()) {
          problems.add("stage {} chunk {}: {} is a collective of stages [{}], which must exist and include this one",
                       stage, chunk.name(), instruction.label, fmt::join(stages, ", "));
          continue;
        }
        meetings.push_back({groupOf(stages), what(*collective) + ofBucket(stage, call, instruction)});
      }
    }
    return all;
  }

  // The stages that take part; empty when it stays inside one.
  std::vector<int64_t> stagesOf(const Collective &collective) const {
    std::vector<int64_t> stages = collective.stages;
    if (stages.empty() && plan::verifyAxes(plan.mesh, collective.axes).isOk() &&
        plan::hasStages(plan.mesh, collective.axes))
      stages = everyone;
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    return stages;
  }

  static std::string what(const Collective &c) {
    return fmt::format("{} {} of {} x {} x {} {}{} over [{}]", nameOf(c.kind), nameOf(c.reduce), c.outer, c.middle,
                       c.chunk, nameOf(c.type), c.splitsInner ? ", inner split," : "", fmt::join(c.axes, ", "));
  }

  // Text like " of the gradients of wte.weight" for a collective on a bucket of gradients; otherwise empty. Stages that
  // share a bucket may number it differently, and another bucket may have the same size.
  std::string ofBucket(int64_t stage, const plan::Call &call, const plan::Instruction &instruction) const {
    if (instruction.operands.empty() || !inside(instruction.operands[0].segment, call.segments.size()))
      return "";
    const plan::Binding &binding = call.segments[instruction.operands[0].segment];
    const std::vector<plan::Bucket> &buckets = plan.stages[stage].buckets;
    auto bucket = std::ranges::find_if(
        buckets, [&](const plan::Bucket &b) { return b.offsetOf(plan::StateRole::gradient) == binding.offset; });
    if (binding.slot >= 0 || instruction.operands[0].offset != 0 || bucket == buckets.end())
      return "";
    std::vector<std::string> names;
    for (const plan::Parameter &parameter : plan.parameters)
      for (const plan::Parameter::Place &place : parameter.places)
        if (place.stage == stage && place.bucket == bucket - buckets.begin())
          names.push_back(parameter.name);
    return fmt::format(" of the gradients of {}", fmt::join(names, ", "));
  }

  int64_t groupOf(const std::vector<int64_t> &stages) {
    auto [it, isNew] = groupIds.try_emplace(stages, int64_t(network.groups.size()));
    if (isNew)
      network.groups.emplace_back();
    return it->second;
  }

  const Plan &plan;
  const Lists &lists;
  Network network;
  std::vector<int64_t> everyone;
  std::map<std::vector<int64_t>, int64_t> groupIds;
};

// --- Memory in flight --------------------------------------------------------------------------------------

struct MemoryRange {
  int64_t offset = 0, bytes = 0;
};

class FlightCheck {
public:
  FlightCheck(const Plan &plan, const Lists &lists, int64_t index, Problems &problems)
      : plan(plan), stage(plan.stages[index]), steps(lists.steps[index]), calls(lists.calls[index]), index(index),
        problems(problems), memory(cuts()) {}

  void check() {
    for (current = 0; current < int64_t(steps.size()); ++current) {
      const ExpandedStep &step = steps[current];
      bool isRun = step.kind == ExpandedStep::Kind::run, isSend = step.kind == ExpandedStep::Kind::send;
      happens.append(isRun ? HappensBefore::runs(isOfGradients(step)) : HappensBefore::messages(step.peer, isSend),
                     step.waits, step.paired);
      if (!isRun)
        touch({step.offset, step.bytes}, isSend);
      else
        for (const MemoryRange &range : touched(step))
          touch(range, false);
    }
  }

private:
  bool isOfGradients(const ExpandedStep &step) const {
    return step.kind == ExpandedStep::Kind::run && stage.chunks[step.chunk].task == plan::Task::gradients;
  }

  // Where the memory begins and ends that is in flight concurrently with the stream compute, or that runs of a pair
  // touch.
  std::vector<int64_t> cuts() const {
    std::vector<int64_t> result;
    auto add = [&](const MemoryRange &range) {
      result.insert(result.end(), {range.offset, range.offset + range.bytes});
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool isOfPair = steps[i].paired || (i + 1 < steps.size() && steps[i + 1].paired);
      if (steps[i].kind != ExpandedStep::Kind::run)
        add({steps[i].offset, steps[i].bytes});
      else if (isOfPair || isOfGradients(steps[i]))
        std::ranges::for_each(touched(steps[i]), add);
    }
    return result;
  }

  std::vector<MemoryRange> touched(const ExpandedStep &step) const {
    const Chunk &chunk = stage.chunks[step.chunk];
    std::vector<MemoryRange> ranges;
    for (size_t i = 0; i < step.slots.size(); ++i)
      ranges.push_back({step.slots[i], stage.rings[chunk.slots[i]].bytes});
    for (int64_t number = step.firstCall; number < step.endCall(int64_t(calls[step.chunk].size())); ++number) {
      const plan::Call &call = calls[step.chunk][number];
      for (size_t i = 0; i < call.segments.size(); ++i)
        if (call.segments[i].slot < 0) {
          int64_t bytes = plan.programs[call.program].segmentBytes[i];
          if (fitsInside(call.segments[i].offset, bytes, stage.bytes))
            ranges.push_back({call.segments[i].offset, bytes});
        }
    }
    return ranges;
  }

  void touch(const MemoryRange &range, bool isRead) {
    memory.visit(range.offset, range.bytes, [&](MemoryTracker::Segment &segment) {
      follow(segment.writer);
      if (isRead) {
        segment.readers.push_back(current);
        return;
      }
      for (int64_t reader : segment.readers)
        follow(reader);
      segment.writer = current;
      segment.readers.clear();
    });
  }

  void follow(int64_t other) {
    if (other < 0 || other == current || happens.completed(other) || std::pair(other, current) == reported)
      return;
    reported = {other, current};
    problems.add("stage {} step {} ({}) uses memory of step {} ({}) without being ordered after it; a wait is missing "
                 "or the memory may not be shared",
                 index, current, describe(stage, steps[current]), other, describe(stage, steps[other]));
  }

  const Plan &plan;
  const StagePlan &stage;
  const std::vector<ExpandedStep> &steps;
  const std::vector<std::vector<plan::Call>> &calls; // by chunk
  int64_t index, current = 0;
  std::pair<int64_t, int64_t> reported = {-1, -1};
  Problems &problems;
  MemoryTracker memory;
  HappensBefore happens;
};

} // namespace

Status verifySchedule(const Plan &plan) {
  Problems problems;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    if (const int64_t steps = plan::runCount(plan.stages[stage].schedule.size(), plan.stages[stage].repeats),
        most = kMaxSteps + 2 * kMaxParts;
        steps > most)
      problems.add("stage {} has {} steps; at most {}", stage, steps, most);
  MGC_TRY(problems.status());
  const Lists lists(plan);
  NetworkBuilder builder(plan, lists);
  Network network = builder.build(problems);
  MGC_TRY(problems.status());
  checkRuns(plan, lists.steps, problems);
  checkMatching(network, problems);
  (void)play(network, problems);
  for (int64_t stage = 0; stage < int64_t(plan.stages.size()); ++stage)
    FlightCheck(plan, lists, stage, problems).check();
  return problems.status();
}

} // namespace mgc::schedule
