// Steps of a schedule, and the rings of the values that each microbatch has for itself.
#pragma once

#include "plan/Reflection.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mgc::plan {

// Places the chunks of all stages, in the order in which a microbatch passes them forward; 3 stages with 2 chunks each:
//   loop  stage 0: 0 3   stage 1: 1 4   stage 2: 2 5    every round starts at stage 0
//   v     stage 0: 0 5   stage 1: 1 4   stage 2: 2 3    every second round goes back: 2 to 3 needs no message
enum class ChunkPlacement { loop, v };
template <> inline constexpr auto enumNames<ChunkPlacement> = std::to_array<std::string_view>({"loop", "v"});

// The memory of a value that exists once per microbatch: slots of `bytes` bytes, `stride` apart, which microbatches use
// cyclically. With p turns microbatch m belongs to turn m mod p, and m, m + p, m + 2p .. cycle through the slots of
// that turn:
//   one turn {0, 3, 0}                  microbatches 0 1 2 3 4 5 have slots 0 1 2 0 1 2
//   two turns {0, 2, 0} and {2, 2, 1}   microbatches 0 1 2 3 4 5 have slots 0 3 1 2 0 3
struct Ring {
  struct Turn {
    // The turn's slots are first .. first + slots - 1.
    int64_t first = 0, slots = 1;
    // The slot of the turn's first microbatch, counted from `first`.
    int64_t phase = 0;
    bool operator==(const Turn &) const = default;
  };
  // Like "activation.0", "tokens".
  std::string name;
  // Bytes of one microbatch.
  int64_t bytes = 0;
  int64_t offset = 0, stride = 0;
  std::vector<Turn> turns = {{}};
  // The stage that the values come from or go to; -1: none.
  int64_t peer = -1;
  // Number of the value that is sent, equal at both ends.
  int64_t value = -1;
  int64_t slotOf(int64_t microbatch) const {
    const auto period = static_cast<int64_t>(turns.size());
    const Turn &turn = turns[microbatch % period];
    return turn.first + (turn.phase + microbatch / period) % turn.slots;
  }
  int64_t offsetOf(int64_t microbatch) const { return offset + stride * slotOf(microbatch); }
  // One past the last slot of any turn.
  int64_t slots() const;
  // Bytes from a slot to the next; the size of the slot if there is only one.
  int64_t pitch() const { return slots() == 1 ? bytes : stride; }
  int64_t end() const { return offset + pitch() * (slots() - 1) + bytes; }
  bool operator==(const Ring &) const = default;
};

// One step of a stage's ordered list. Runs execute in list order on stream "compute", or, for task gradients, on a
// stream of their own. send and recv are asynchronous: they start once their `waits` are done and complete when
// matched. Messages from one stage to another match in list order, untagged. Two runs are a pair if the second is
// `paired`: they may run concurrently, as one step. Both start after the waits of the first; the second has none. A
// step after them, or one that waits for one of them, starts after both. Neither run uses bytes that the other writes.
struct ScheduleStep {
  enum class Kind { run, send, recv } kind = Kind::run;
  // run: the chunk.
  int64_t chunk = -1;
  // send, recv: the ring of the value that is sent.
  int64_t ring = -1;
  // -1: once per training step.
  int64_t microbatch = -1;
  int64_t microbatchStride = 0;
  // run: calls firstCall .. firstCall + callCount - 1 of the chunk, counted with repeats unrolled; callCount -1: all.
  // The runs of a chunk for one microbatch execute all its calls in order.
  int64_t firstCall = 0, callCount = -1;
  // run: paired with the run right before it in the list.
  bool paired = false;
  // k: the step starts after the step k places before it, counted with repeats unrolled.
  std::vector<int64_t> waits;
  // run: one past the last call that it runs of a chunk with so many calls.
  int64_t endCall(int64_t calls) const { return callCount < 0 ? calls : firstCall + callCount; }
  bool operator==(const ScheduleStep &) const = default;
};
template <>
inline constexpr auto enumNames<ScheduleStep::Kind> = std::to_array<std::string_view>({"run", "send", "recv"});

} // namespace mgc::plan
