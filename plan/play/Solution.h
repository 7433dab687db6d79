// Schedules of a pipeline as they are played: which stage holds which chunk, its tasks in order, and the list of run, send and recv
// steps with waits of each stage.
//
// Stage s holds the chunks 0 .. virtualStages-1, which the placement maps to global chunks. The activation of global
// chunk c feeds c + 1, the gradient goes back.
#pragma once

#include "plan/PlanPrograms.h"
#include "plan/PlanSchedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgc::schedule {

using plan::ChunkPlacement;

struct Shape {
  int64_t stages = 1, virtualStages = 1, microbatches = 1;
  ChunkPlacement placement = ChunkPlacement::loop;
  bool operator==(const Shape &) const = default;

  int64_t chunks() const { return stages * virtualStages; }
  int64_t globalChunk(int64_t stage, int64_t chunk) const {
    return chunk * stages + (isBackward(chunk) ? stages - 1 - stage : stage);
  }
  int64_t stageOf(int64_t globalChunk) const {
    int64_t place = globalChunk % stages;
    return isBackward(chunkOf(globalChunk)) ? stages - 1 - place : place;
  }
  int64_t chunkOf(int64_t globalChunk) const { return globalChunk / stages; } // chunk in its stage
  // Whether the global chunks `from` and from + 1 are on one stage: what goes between them is no message.
  bool isLocal(int64_t from) const { return stageOf(from) == stageOf(from + 1); }

private:
  bool isBackward(int64_t chunk) const { return placement == ChunkPlacement::v && chunk % 2 != 0; }
};

// Microbatches that pass the chunks of a stage together: orders repeat with as many. Chunks in a V pass each by itself.
inline int64_t groupOf(const Shape &shape) {
  return shape.virtualStages > 1 && shape.placement == ChunkPlacement::loop ? shape.stages : 1;
}

// backward gives the input's and the weights' gradients; a schedule with splitBackward has input and weight
// instead. reduce and update hold collectives over all stages, gradients holds none.
using TaskKind = plan::Task;
inline constexpr int64_t kTaskKinds = plan::enumNames<plan::Task>.size();

struct ScheduledTask {
  TaskKind kind = TaskKind::begin;
  int64_t chunk = -1;      // chunk in the stage, not global; -1: once per training step
  int64_t microbatch = -1; // -1: once per training step
  int64_t part = -1;       // part of the chunk's layers, see Problem::parts; -1: all of it
  bool paired = false;     // with the task before it in the order: plan::ScheduleStep
  bool first = false;      // the first microbatch's, which has a chunk of its own: plan::Chunk
  bool operator==(const ScheduledTask &) const = default;
};
std::string toString(const ScheduledTask &task); // "forward chunk 1 microbatch 3", "gradients chunk 1 part 0", "reduce"

// One buffer per (chunk, microbatch) and kind. input and gradientIn are received, output and gradientOut are
// sent. When both ends of a boundary are on one stage (Shape::isLocal) there is no message: the consumer's `input`
// use names the producer's `output` buffer, its `gradientIn` use the producer's `gradientOut` buffer.
//   input        the chunk's input activation        activation  everything else saved for backward
//   output       its output activation               gradientIn  gradient of its output
//   gradientOut  gradient of its input               split       values that `input` passes to `weight`
//   offloaded    of activation, what is on the host
enum class BufferKind { input, activation, output, gradientIn, gradientOut, split, offloaded };
inline constexpr int64_t kBufferKinds = 7;
const char *nameOf(BufferKind kind);

using Order = std::vector<ScheduledTask>; // compute tasks with a microbatch

struct ChunkCost { // seconds of one microbatch; backward = input + weight unless it is measured
  double forward = 1, backward = 2, input = 1, weight = 1;
  double gradients = 0; // completing the gradients of all its parts
};
// Whether the task makes the gradient of the chunk's input, which the chunk before it takes.
constexpr bool makesGradient(TaskKind kind) { return kind == TaskKind::backward || kind == TaskKind::input; }
// Whether the task has collectives over all stages.
constexpr bool meetsAllStages(TaskKind kind) { return kind == TaskKind::reduce || kind == TaskKind::update; }
char letterOf(TaskKind kind); // in texts and pictures: F B I W, of the step Z G R U
// The field of a task of chunks; null of one of the step.
double ChunkCost::*costOf(TaskKind kind);

// Values that travel: the activation of global chunk c (to c + 1) is 2c, the gradient from c + 1 to c is 2c + 1.
inline int64_t activationValue(int64_t from) { return 2 * from; }
inline int64_t gradientValue(int64_t to) { return 2 * to + 1; }

struct BufferUse {
  BufferKind kind = BufferKind::input; // the role the buffer has for this step
  int64_t buffer = -1;                 // index into StageSchedule::buffers
  bool operator==(const BufferUse &) const = default;
};

// run: reads and writes name every buffer of its task that has bytes. send reads one buffer, recv writes one.
// Meaning of the list: plan::ScheduleStep.
struct Step {
  enum class Kind { run, send, recv } kind = Kind::run;
  ScheduledTask task;         // run: itself; send: the producer; recv: the consumer, of no part
  int64_t peer = -1;          // send, recv: stage
  int64_t value = -1;         // send, recv
  int64_t microbatch = -1;    // = task.microbatch
  int64_t bytes = 0;          // send, recv
  std::vector<int64_t> waits; // indices of earlier steps of this list
  std::vector<BufferUse> reads, writes;
  bool operator==(const Step &) const = default;
};
std::string toString(const Step &step);
// Whether the step is the second run of a pair; the first is the step before it.
inline bool isPaired(const Step &step) { return step.kind == Step::Kind::run && step.task.paired; }

struct ScheduledBuffer {
  BufferKind kind = BufferKind::input; // the role it has for the step that writes it (recv: for its consumer)
  int64_t chunk = 0, microbatch = 0;
  int64_t bytes = 0;
  int64_t begin = 0, end = 0; // lifetime in steps of the list
  int64_t offset = 0;         // bytes, 64-aligned, in the stage's area for these buffers
  int64_t ring = -1;          // index in StageSchedule::rings
};

// Slots for the buffers of a kind, and the steps of the stage's list from their first use to their last.
struct BufferArea {
  BufferKind kind;
  int64_t chunk = -1; // -1: of several chunks
  int64_t slots = 0, stride = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const BufferArea &) const = default;
};

// Slots that buffers of some chunks share, and the steps of the stage's list from their first use to their last.
struct SlotGroup {
  std::vector<int64_t> chunks;
  int64_t slots = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const SlotGroup &) const = default;
};
// Slots of the buffers of a kind: of each chunk by itself; chunks whose buffers have the same size share some where they can; or all
// chunks do, if they can.
struct KindSlots {
  BufferKind kind = BufferKind::input;
  std::vector<SlotGroup> apart, alike;
  std::optional<SlotGroup> shared;
  bool operator==(const KindSlots &) const = default;
};

struct StageSchedule {
  std::vector<Step> steps; // begin first; reduce, update last
  std::vector<ScheduledBuffer> buffers;
  // One per kind and chunk of the buffers; offsets are those in the area of the device, and of those on the host in the area behind it.
  std::vector<plan::Ring> rings;
  int64_t bytes = 0, hostBytes = 0; // sizes of the areas that hold the buffers
  // Areas of a kind as they are, but for activation and split: of each chunk one, and where chunks can share slots another for all.
  std::vector<BufferArea> areas;
  std::vector<KindSlots> slots; // slots that the areas are made of
};

struct Solution {
  std::string schedule;
  Shape shape;
  std::vector<StageSchedule> stages;
};

} // namespace mgc::schedule
