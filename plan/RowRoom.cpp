// See RowRoom.h.
#include "plan/RowRoom.h"

#include "plan/EvenLoad.h"
#include "plan/Expand.h"

#include <algorithm>
#include <limits>
#include <map>

namespace mgc::plan {

namespace {

// --- Frames

// A value of a frame: its bytes, and the instructions from the first to the last that has it.
struct LiveValue {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  int64_t first = 0, last = 0;
};

std::map<int64_t, LiveValue> valuesOfFrame(const Plan &plan, const Program &program) {
  std::map<int64_t, LiveValue> values;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const OperandInfos infos = operandsOf(plan.mesh, instruction.body);
    for (size_t k = 0; k < infos.size(); ++k) {
      const Operand &operand = instruction.operands[k];
      if (operand.segment != program.frame || operand.value < 0)
        continue;
      const auto [known, isNew] = values.try_emplace(operand.value);
      LiveValue &value = known->second;
      if (isNew)
        value.first = int64_t(i);
      value.last = int64_t(i);
      value.begin = std::min(value.begin, operand.offset);
      value.end = std::max(value.end, operand.offset + infos[k].span().value_or(0));
    }
  }
  return values;
}

// The most bytes that live at one instruction; size(number, value): of a value.
template <typename Size> double peakOf(const std::map<int64_t, LiveValue> &values, size_t instructions, Size size) {
  std::vector<double> changes(instructions + 1);
  for (const auto &[number, value] : values) {
    changes[size_t(value.first)] += size(number, value);
    changes[size_t(value.last) + 1] -= size(number, value);
  }
  double live = 0, most = 0;
  for (const double change : changes)
    most = std::max(most, live += change);
  return most;
}

// The most that lives together in a frame, and the most if loads were even.
struct Peaks {
  double all = 0, even = 0;
};

Peaks peaksOf(const Plan &plan, const Program &program, const EvenLoad &load) {
  if (program.frame < 0)
    return {};
  const std::map<int64_t, LiveValue> values = valuesOfFrame(plan, program);
  const auto bytes = [](int64_t, const LiveValue &value) { return double(value.end - value.begin); };
  const auto even = [&](int64_t number, const LiveValue &value) { return bytes(number, value) * load.shareOf(number); };
  const size_t instructions = program.instructions.size();
  return {peakOf(values, instructions, bytes), peakOf(values, instructions, even)};
}

// --- Activations

// Bytes of one slot beyond the mean, by ring and place in it.
using KeptRoom = std::map<std::pair<int64_t, int64_t>, double>;

void addKept(const Plan &plan, const Chunk &chunk, const Call &call, const EvenLoad &load, KeptRoom &kept) {
  for (const Instruction &instruction : plan.programs[size_t(call.program)].instructions) {
    const OperandInfos infos = operandsOf(plan.mesh, instruction.body);
    for (size_t k = 0; k < infos.size(); ++k) {
      const Operand &operand = instruction.operands[k];
      const Binding &binding = call.segments[size_t(operand.segment)];
      const double share = load.shareOf(operand.value);
      if (binding.slot >= 0 && infos[k].isWritten() && share < 1)
        kept[{chunk.slots[size_t(binding.slot)], binding.offset + operand.offset}] =
            (1 - share) * double(infos[k].span().value_or(0));
    }
  }
}

// The part of the rings that their memory has: they need not all be full at once.
double partOfRings(const StagePlan &stage, const Region &region) {
  double bytes = 0;
  for (const Ring &ring : stage.rings)
    if (ring.offset >= region.offset && ring.offset < region.offset + region.bytes)
      bytes += double(ring.bytes) * double(ring.slots());
  return bytes == 0 ? 0 : std::min(1.0, double(region.bytes) / bytes);
}

class RowRoom {
public:
  explicit RowRoom(const Plan &plan) : plan_(plan) {
    for (const Program &program : plan.programs) {
      loads_.emplace_back(plan.mesh, program);
      peaks_.push_back(peaksOf(plan, program, loads_.back()));
    }
  }

  int64_t of(const StagePlan &stage) const { return int64_t(ofFrame(stage) + ofKept(stage)); }

private:
  double ofFrame(const StagePlan &stage) const {
    Peaks most;
    for (const Chunk &chunk : stage.chunks)
      for (const Call &call : chunk.calls) {
        const Peaks &peaks = peaks_[size_t(call.program)];
        most = {std::max(most.all, peaks.all), std::max(most.even, peaks.even)};
      }
    return most.all - most.even;
  }

  double ofKept(const StagePlan &stage) const {
    const auto region = std::ranges::find(stage.regions, "activations", &Region::kind);
    if (region == stage.regions.end())
      return 0;
    KeptRoom kept;
    for (const Chunk &chunk : stage.chunks)
      if (chunk.task == Task::forward)
        for (const Call &call : expandedCalls(chunk))
          addKept(plan_, chunk, call, loads_[size_t(call.program)], kept);
    double room = 0;
    for (const auto &[place, beyond] : kept)
      room += beyond * double(stage.rings[size_t(place.first)].slots());
    return room * partOfRings(stage, *region);
  }

  const Plan &plan_;
  std::vector<EvenLoad> loads_; // by program, as `peaks_`
  std::vector<Peaks> peaks_;
};

} // namespace

std::vector<int64_t> roomBeyondMean(const Plan &plan) {
  const RowRoom room(plan);
  std::vector<int64_t> bytes;
  for (const StagePlan &stage : plan.stages)
    bytes.push_back(room.of(stage));
  return bytes;
}

} // namespace mgc::plan
