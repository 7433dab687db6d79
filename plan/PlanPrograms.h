// Programs of a plan, and the chunks that call them.
#pragma once

#include "plan/instructions/Instruction.h"

namespace mgc::plan {

// Items [begin, end) of a list run `count` times before the item behind them; items in no repeat run once. Repeats are
// in order and do not overlap. Numbers of an item that are called strides are added in each iteration after the first.
//   items a b c d, repeat {1, 3, 3}:  a b c b c b c d
struct Repeat {
  int64_t begin = 0, end = 0, count = 1;
  bool operator==(const Repeat &) const = default;
};

struct Program {
  // Like "layer.forward".
  std::string name;
  // The policy by which backward recomputes what forward does not save (docs/memory.md): "none", "full", "core_attn+mlp"; empty: the
  // standard one, or it is of no block.
  std::string policy;
  std::vector<std::string> segments;
  // The least size of each segment: all operands lie inside.
  std::vector<int64_t> segmentBytes;
  // The segment of the values that live only during a call; -1: there are none.
  int64_t frame = -1;
  std::vector<Instruction> instructions;
  // Repeated instructions, such as the tiles of a loss.
  std::vector<Repeat> repeats;
  bool operator==(const Program &) const = default;
};

struct Binding {
  // Index into Chunk::slots; -1: the rank's allocation.
  int64_t slot = -1;
  // In bytes.
  int64_t offset = 0, stride = 0;
  bool operator==(const Binding &) const = default;
};
struct Call {
  int64_t program = 0;
  // Number of the block instance: the layer.
  int64_t instance = 0;
  int64_t instanceStride = 0;
  std::vector<Binding> segments;
  bool operator==(const Call &) const = default;
};
// The task of a chunk in the training step. begin zeroes the gradients. forward, backward and the halves of backward,
// input and weight, run once per microbatch and virtual stage. gradients completes the gradients of some layers of a
// virtual stage, a call for each part of its last backward, while the gradients of earlier layers are still computed.
// reduce completes the other gradients. update ends the step.
enum class Task { begin, forward, backward, input, weight, gradients, reduce, update };
template <>
inline constexpr auto enumNames<Task> = std::to_array<std::string_view>(
    {"begin", "forward", "backward", "input", "weight", "gradients", "reduce", "update"});
constexpr bool isPerMicrobatch(Task task) {
  return task != Task::begin && task != Task::gradients && task != Task::reduce && task != Task::update;
}
// The tasks that run a function of each block; the other tasks run a function of the stage.
inline constexpr std::array kBlockTasks{Task::forward, Task::backward, Task::input, Task::weight};
constexpr bool isPerVirtualStage(Task task) { return isPerMicrobatch(task) || task == Task::gradients; }

struct Chunk {
  Task task = Task::begin;
  // The part of the stage's layers that the chunk runs; 0 for a task that is not per virtual stage.
  int64_t virtualStage = 0;
  // It runs for microbatch 0 alone, and gathers values that the whole step reads; another chunk of its task and virtual stage, if
  // there are more microbatches, runs for all others.
  bool first = false;
  // Like "forward.0", "forward.0.first", "begin".
  std::string name() const;
  // The rings of the stage that the chunk uses.
  std::vector<int64_t> slots;
  std::vector<Call> calls;
  // Repeated calls, such as equal layers.
  std::vector<Repeat> repeats;
  bool operator==(const Chunk &) const = default;
};

} // namespace mgc::plan
