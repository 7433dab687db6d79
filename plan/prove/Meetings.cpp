// See Meetings.h.
#include "plan/prove/Meetings.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::plan {

namespace {

struct Meeting {
  int64_t group = 0;
  std::string what; // properties that all members of the group must agree on
};

class MeetingReader {
public:
  MeetingReader(const Plan &plan, Problems &problems) : plan_(plan), problems_(problems) {
    for (const Program &program : plan.programs) {
      std::vector<size_t> &numbers = collectives_.emplace_back();
      for (size_t i = 0; i < program.instructions.size(); ++i)
        if (!stagesOf(program.instructions[i].body).empty())
          numbers.push_back(i);
    }
  }

  Meetings read() {
    Meetings meetings;
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      std::vector<std::vector<Meeting>> ofChunks;
      std::vector<std::vector<int64_t>> &groups = meetings.ofChunks.emplace_back();
      for (const Chunk &chunk : plan_.stages[stage].chunks) {
        ofChunks.push_back(ofChunk(chunk, static_cast<int64_t>(stage)));
        groups.emplace_back();
        for (const Meeting &meeting : ofChunks.back())
          groups.back().push_back(meeting.group);
      }
      follow(static_cast<int64_t>(stage), ofChunks);
    }
    for (const auto &[stages, number] : numbers_) {
      meetings.groups.resize(numbers_.size());
      meetings.groups[number] = stages;
      compare(stages, number);
    }
    return meetings;
  }

private:
  // Empty where it stays inside a stage.
  std::vector<int64_t> stagesOf(const InstructionBody &body) const {
    const std::optional<RankGroup> group = groupOf(body);
    if (!group)
      return {};
    std::vector<int64_t> stages = group->stages;
    if (stages.empty() && hasStages(plan_.mesh, group->axes)) {
      stages.resize(plan_.stages.size());
      std::iota(stages.begin(), stages.end(), 0);
    }
    return stages;
  }

  std::vector<Meeting> ofChunk(const Chunk &chunk, int64_t stage) {
    std::vector<Meeting> meetings;
    forEachRun(chunk.calls.size(), chunk.repeats, [&](int64_t number, int64_t iteration) {
      const Call &call = chunk.calls[number];
      if (collectives_[call.program].empty())
        return;
      const Program &program = plan_.programs[call.program];
      forEachRun(program.instructions.size(), program.repeats, [&](int64_t i, int64_t) {
        const Instruction &instruction = program.instructions[i];
        const std::vector<int64_t> stages = stagesOf(instruction.body);
        if (!stages.empty())
          meetings.push_back(meetingAt(stages, instruction, inIteration(call, iteration), stage));
      });
    });
    if (!meetings.empty() && chunk.task == Task::gradients)
      problems_.add("stage {} chunk {}: {} is a collective between stages; task gradients has those inside one", stage,
                    chunk.name(), meetings.front().what);
    return meetings;
  }

  Meeting meetingAt(const std::vector<int64_t> &stages, const Instruction &instruction, const Call &call,
                    int64_t stage) {
    const auto number = numbers_.try_emplace(stages, static_cast<int64_t>(numbers_.size())).first->second;
    return {number, agreementOf(instruction.body) + bucketOf(stage, call, instruction)};
  }

  // Text like " of the gradients of wte.weight" for a collective on a bucket of gradients; otherwise empty. Stages that
  // share a bucket may number it differently, and another bucket may have the same size.
  std::string bucketOf(int64_t stage, const Call &call, const Instruction &instruction) const {
    const Binding &binding = call.segments[instruction.operands[0].segment];
    const std::vector<Bucket> &buckets = plan_.stages[stage].buckets;
    const auto bucket = std::ranges::find_if(buckets, [&](const Bucket &one) {
      return std::ranges::any_of(one.states, [&](const State &state) {
        return isGradient(state.role) && !isOfOneUnit(state.role) && state.offset == binding.offset;
      });
    });
    if (binding.slot >= 0 || instruction.operands[0].offset != 0 || bucket == buckets.end())
      return "";
    std::vector<std::string> names;
    for (const Parameter &parameter : plan_.parameters)
      for (const Parameter::Place &place : parameter.places)
        if (place.stage == stage && place.bucket == bucket - buckets.begin())
          names.push_back(parameter.name);
    return fmt::format(" of the gradients of {}", fmt::join(names, ", "));
  }

  // The stage's meetings in the order of its steps.
  void follow(int64_t stage, const std::vector<std::vector<Meeting>> &ofChunks) {
    const StagePlan &plan = plan_.stages[stage];
    std::vector<bool> isRepeated(plan.schedule.size());
    for (const Repeat &repeat : plan.repeats)
      std::fill(isRepeated.begin() + repeat.begin, isRepeated.begin() + repeat.end, repeat.count > 1);
    for (size_t i = 0; i < plan.schedule.size(); ++i) {
      const ScheduleStep &step = plan.schedule[i];
      if (step.kind != ScheduleStep::Kind::run || ofChunks[step.chunk].empty())
        continue;
      if (isRepeated[i] || step.callCount >= 0)
        problems_.add("stage {} schedule[{}]: {} is a collective between stages, in a step that is repeated or runs a "
                      "part of its chunk; expected a run of its own",
                      stage, i, ofChunks[step.chunk].front().what);
      for (const Meeting &meeting : ofChunks[step.chunk])
        followed_[{meeting.group, stage}].push_back(meeting.what);
    }
  }

  void compare(const std::vector<int64_t> &stages, int64_t number) {
    const std::vector<std::string> &first = followed_[{number, stages.front()}];
    for (int64_t stage : stages) {
      const std::vector<std::string> &own = followed_[{number, stage}];
      const size_t same = std::mismatch(first.begin(), first.end(), own.begin(), own.end()).first - first.begin();
      if (same != first.size() || same != own.size())
        problems_.add("collective {} between stages: stage {} has {}, stage {} has {}", same, stages.front(),
                      same < first.size() ? first[same] : "none", stage, same < own.size() ? own[same] : "none");
    }
  }

  const Plan &plan_;
  Problems &problems_;
  std::vector<std::vector<size_t>> collectives_;                             // by program
  std::map<std::vector<int64_t>, int64_t> numbers_;                          // by group
  std::map<std::pair<int64_t, int64_t>, std::vector<std::string>> followed_; // by group and stage
};

} // namespace

Meetings meetingsOf(const Plan &plan, Problems &problems) { return MeetingReader(plan, problems).read(); }

} // namespace mgc::plan
