// See HostCopyTime.h.
#include "plan/cost/HostCopyTime.h"

#include "plan/Expand.h"
#include "plan/cost/InstructionTime.h"

#include <algorithm>
#include <array>

namespace mgc::cost {

namespace {

using Direction = plan::HostCopy::Direction;

struct CopyOnItsWay {
  std::array<int64_t, 2> begin, end; // bytes of source and destination
  double done = 0;                   // when
};

class CopyPlayer {
public:
  // A call that touches the bytes waits for copies that do, and for those before these in their direction.
  void join(int64_t begin, int64_t end) {
    for (const CopyOnItsWay &copy : copies_)
      for (size_t side = 0; side < 2; ++side)
        if (copy.begin[side] < end && begin < copy.end[side])
          now_ = std::max(now_, copy.done);
    std::erase_if(copies_, [&](const CopyOnItsWay &copy) { return copy.done <= now_; });
  }
  void work(double seconds) { now_ += seconds; }
  void copy(Direction direction, std::array<int64_t, 2> begin, int64_t bytes, double seconds) {
    for (const int64_t at : begin)
      join(at, at + bytes);
    double &free = free_[size_t(direction)];
    free = std::max(free, now_) + seconds;
    copies_.push_back({begin, {begin[0] + bytes, begin[1] + bytes}, free});
  }
  double end() const { return std::max({now_, free_[0], free_[1]}); }

private:
  double now_ = 0;
  std::array<double, 2> free_ = {}; // by direction
  std::vector<CopyOnItsWay> copies_;
};

bool hasHostCopies(const plan::Program &program) {
  return std::ranges::any_of(program.instructions, [](const plan::Instruction &instruction) {
    return std::holds_alternative<plan::HostCopy>(instruction.body);
  });
}

} // namespace

HostCopyTime hostCopyTime(const Cluster &cluster, const plan::Plan &plan, const plan::StagePlan &stage,
                          const plan::Chunk &chunk, const std::vector<ProgramTime> &programs) {
  HostCopyTime time;
  if (std::ranges::none_of(chunk.calls,
                           [&](const plan::Call &call) { return hasHostCopies(plan.programs[call.program]); }))
    return time;
  const auto addressOf = [&](const plan::Binding &binding) {
    return binding.offset + (binding.slot < 0 ? 0 : stage.rings[chunk.slots[binding.slot]].offset);
  };
  CopyPlayer player;
  double works = 0, copies = 0;
  for (const plan::Call &call : expandedCalls(chunk)) {
    const plan::Program &program = plan.programs[call.program];
    const bool copiesOnly = hasHostCopies(program);
    for (size_t i = 0; !copiesOnly && i < call.segments.size(); ++i)
      player.join(addressOf(call.segments[i]), addressOf(call.segments[i]) + program.segmentBytes[i]);
    player.work(programs[call.program].seconds());
    works += programs[call.program].seconds();
    for (const plan::Instruction &instruction : program.instructions)
      if (const auto *copy = std::get_if<plan::HostCopy>(&instruction.body)) {
        const double seconds = secondsOf(cluster, instruction.body);
        const auto at = [&](size_t operand) {
          return addressOf(call.segments[instruction.operands[operand].segment]) + instruction.operands[operand].offset;
        };
        player.copy(copy->direction, {at(0), at(1)}, copy->bytes, seconds);
        copies += seconds;
      }
  }
  time.exposed = std::max(0.0, player.end() - works);
  time.hidden = std::max(0.0, copies - time.exposed);
  return time;
}

} // namespace mgc::cost
