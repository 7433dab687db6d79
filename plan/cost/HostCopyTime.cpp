// See HostCopyTime.h.
#include "plan/cost/HostCopyTime.h"

#include "plan/Expand.h"
#include "plan/cost/InstructionTime.h"
#include "plan/prove/Bytes.h"

#include <algorithm>
#include <array>
#include <limits>

namespace mgc::cost {

namespace {

using Direction = plan::HostCopy::Direction;

class CopyPlayer {
public:
  // A call that touches the bytes waits for copies that do, and for those before these in their direction.
  void join(plan::ByteInterval range) {
    copied_.peek(range, [&](plan::ByteInterval, double done) { now_ = std::max(now_, done); });
    copied_.merge(range, 0);
  }
  void work(double seconds) { now_ += seconds; }
  void copy(Direction direction, std::array<int64_t, 2> begin, int64_t bytes, double seconds) {
    for (const int64_t at : begin)
      join({at, at + bytes});
    double &free = free_[size_t(direction)];
    free = std::max(free, now_) + seconds;
    for (const int64_t at : begin)
      copied_.merge({at, at + bytes}, free);
  }
  double end() const { return std::max({now_, free_[0], free_[1]}); }

private:
  double now_ = 0;
  std::array<double, 2> free_ = {};                                      // by direction
  plan::ByteMap<double> copied_{std::numeric_limits<int64_t>::max(), 0}; // when the last copy of the bytes is done
};

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
      player.join({addressOf(call.segments[i]), addressOf(call.segments[i]) + program.segmentBytes[i]});
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
