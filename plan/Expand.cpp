// See Expand.h.
#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace mgc::plan {

int64_t runCount(size_t items, const std::vector<Repeat> &repeats) {
  auto count = static_cast<int64_t>(items);
  for (const Repeat &repeat : repeats)
    count += (repeat.end - repeat.begin) * (repeat.count - 1);
  return count;
}

Call inIteration(Call call, int64_t iteration) {
  call.instance += iteration * std::exchange(call.instanceStride, 0);
  for (Binding &binding : call.segments)
    binding.offset += iteration * std::exchange(binding.stride, 0);
  return call;
}

Operand inIteration(const Operand &operand, int64_t iteration) {
  return {operand.segment, operand.offset + iteration * operand.stride, 0, operand.value};
}

std::vector<Call> expandedCalls(const Chunk &chunk) {
  std::vector<Call> calls;
  forEachRun(chunk.calls.size(), chunk.repeats,
             [&](int64_t call, int64_t iteration) { calls.push_back(inIteration(chunk.calls[call], iteration)); });
  return calls;
}

static ExpandedStep expand(const StagePlan &stage, const ScheduleStep &step, int64_t iteration, int64_t index) {
  ExpandedStep out;
  out.kind = step.kind;
  out.chunk = step.chunk;
  out.microbatch = step.microbatch + iteration * step.microbatchStride;
  out.firstCall = step.firstCall;
  out.callCount = step.callCount;
  out.paired = step.paired;
  for (int64_t distance : step.waits)
    out.waits.push_back(index - distance);
  std::ranges::sort(out.waits);
  if (step.kind == ScheduleStep::Kind::run) {
    for (int64_t ring : stage.chunks[step.chunk].slots)
      out.slots.push_back(stage.rings[ring].offsetOf(out.microbatch));
    return out;
  }
  const Ring &ring = stage.rings[step.ring];
  out.peer = ring.peer;
  out.value = ring.value;
  out.offset = ring.offsetOf(out.microbatch);
  out.bytes = ring.bytes;
  return out;
}

std::vector<ExpandedStep> expandedSchedule(const StagePlan &stage) {
  std::vector<ExpandedStep> steps;
  steps.reserve(static_cast<size_t>(runCount(stage.schedule.size(), stage.repeats)));
  forEachRun(stage.schedule.size(), stage.repeats, [&](int64_t step, int64_t iteration) {
    steps.push_back(expand(stage, stage.schedule[step], iteration, static_cast<int64_t>(steps.size())));
  });
  return steps;
}

std::string nameForInstance(std::string name, int64_t instance) {
  if (const size_t hole = name.find("{}"); hole != std::string::npos)
    name.replace(hole, 2, std::to_string(instance));
  return name;
}

std::string nameInStack(std::string name, int64_t number) {
  if (const size_t hole = name.find(kStackHole); hole != std::string::npos)
    name.replace(hole, kStackHole.size(), std::to_string(number));
  return name;
}

static Parameter ofInstance(const Parameter &all, int64_t instance) {
  Parameter one = all;
  one.name = nameForInstance(all.name, instance);
  one.tensor = nameForInstance(all.tensor, instance);
  for (std::string &alias : one.aliases)
    alias = nameForInstance(alias, instance);
  one.places.clear();
  return one;
}

bool isNumbered(const Parameter &parameter) { return parameter.name.find("{}") != std::string::npos; }

int64_t elementsOf(const Plan &plan, const Bucket &bucket, const State &state) {
  return bucket.elementsOf(state, groupSize(plan.mesh, bucket.axesOf(state)));
}

int64_t bytesOf(const Plan &plan, const Bucket &bucket, const State &state) {
  return elementsOf(plan, bucket, state) * sizeInBytes(state.type);
}

std::vector<StateSpan> spansOf(const Plan &plan, const Bucket &bucket, const State &state) {
  const int64_t width = sizeInBytes(state.type), all = bytesOf(plan, bucket, state),
                onHost = state.hostElements * width;
  std::vector<StateSpan> parts;
  if (onHost > 0)
    parts.push_back({state.hostOffset, onHost, 0});
  if (all > onHost)
    parts.push_back({state.offset, all - onHost, state.hostElements});
  return parts;
}

int64_t instanceCount(const Parameter &parameter) {
  std::set<int64_t> numbers;
  for (const Parameter::Place &place : parameter.places)
    for (int64_t i = 0; i < place.count; ++i)
      numbers.insert(isNumbered(parameter) ? place.first + i : 0);
  return static_cast<int64_t>(numbers.size());
}

std::vector<Parameter> instancesOf(const Parameter &parameter) {
  std::vector<Parameter> instances;
  std::map<int64_t, size_t> known; // by number
  for (const Parameter::Place &place : parameter.places)
    for (int64_t i = 0; i < place.count; ++i) {
      const int64_t number = isNumbered(parameter) ? place.first + i : 0;
      const auto [found, isNew] = known.try_emplace(number, instances.size());
      if (isNew)
        instances.push_back(ofInstance(parameter, number));
      instances[found->second].places.push_back(
          {place.stage, place.bucket, place.elementOffset + i * place.stride, 0, 1, 0, place.uses});
    }
  return instances;
}

std::vector<Parameter> expandedParameters(const Plan &plan) {
  std::vector<Parameter> all;
  for (const Parameter &parameter : plan.parameters)
    std::ranges::move(instancesOf(parameter), std::back_inserter(all));
  return all;
}

} // namespace mgc::plan
