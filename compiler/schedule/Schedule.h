// Pipeline schedules. In: a Problem (stages, virtual stages, microbatches, bytes per buffer, name of a schedule). Out:
// a Solution: per stage an ordered list of run, send and recv steps with waits, and an offset per buffer. plan/prove
// proves the plan that is made of it. docs/adding-a-schedule.md explains the whole.
#pragma once

#include "compiler/schedule/Happens.h"
#include "plan/play/Solution.h"
#include "runtime/base/Status.h"

#include <array>

namespace mgc::schedule {

enum class BufferAccess { none, read, write };
// The access of each task to each kind of buffer. Change it where a backward does not need the chunk's input, say.
using AccessTable = std::array<std::array<BufferAccess, kBufferKinds>, kTaskKinds>;
AccessTable defaultAccess();
//                input  activation  output  gradientIn  gradientOut  split
//   forward      read   write       write
//   backward     read   read                read        write
//   input        read   read                read        write        write
//   weight       read   read                                         read

using Sizes = std::array<int64_t, kBufferKinds>; // bytes, by BufferKind; 0: there is none

struct Problem {
  std::string schedule = "1f1b"; // a row of schedules(), or the name of `orders`
  Shape shape;
  // [stage][chunk]. The first global chunk has no input and gradientOut, the last no output and gradientIn:
  // those sizes are ignored. The two ends of a boundary must agree. A gradient of no bytes is not sent: nothing before is trained.
  std::vector<std::vector<Sizes>> bytes;
  AccessTable access = defaultAccess();
  // [stage][chunk]: the tasks of a chunk that compute nothing, and touch no buffer. Empty: none.
  std::vector<std::vector<std::vector<TaskKind>>> idle = {};
  bool isIdle(int64_t stage, int64_t chunk, TaskKind task) const;
  // [stage][chunk]: the forward of the first microbatch runs by itself, ScheduledTask::first. Empty: of no chunk.
  std::vector<std::vector<bool>> opened = {};
  bool isFirst(int64_t stage, const ScheduledTask &task) const;
  // [stage][chunk]: the task that completes the chunk's gradients (the last microbatch's backward, or weight) runs in
  // so many parts, each followed by the task gradients for the part, which runs concurrently with the following runs.
  // 0: in one, and its gradients are left to reduce. Empty: 0 everywhere.
  std::vector<std::vector<int64_t>> parts = {};
  int64_t partsOf(int64_t stage, int64_t chunk) const { return parts.empty() ? 0 : parts[stage][chunk]; }

  // [stage]: a forward and a backward of it add to the same of the step's results, so that they make no pair. Empty: none.
  std::vector<bool> sharesTotals = {};

  std::vector<Order> orders = {}; // one per stage, given by a text (Text.h); empty: those of the row
  // For rows that plan by time and memory ("auto"); no other row reads them.
  std::vector<ChunkCost> costs = {}; // by global chunk; empty: equal chunks
  double messageSeconds = 0;         // time of one value from one stage to another
  double memory = 1; // the most live activations of a stage, in units of 1F1B's peak: min(stages, microbatches)
};

// Sizes and parts for every chunk, none negative, and the two ends of each boundary agree. The shape must be valid.
Status checkSizes(const Problem &problem);

// The bytes of a buffer, or 0 where the boundary does not exist.
int64_t bytesOf(const Problem &problem, int64_t stage, int64_t chunk, BufferKind kind);

// Microbatches in chunks of all stages at most.
inline constexpr int64_t kMaxTasks = int64_t(1) << 24;

// --- Functions ---------------------------------------------------------------------------------------------

// A schedule is one row; everything else follows from its orders. Gradients of a chunk are accumulated in
// ascending microbatch order by every row, so that schedules agree to the bit.
struct ScheduleRow {
  const char *name;
  const char *description;
  bool splitBackward;
  bool byDefault;                                       // where a user asks for none and these fit
  int64_t minVirtualStages, maxVirtualStages;           // inclusive
  std::vector<Order> (*orders)(const Problem &problem); // one per stage
  ChunkPlacement placement = ChunkPlacement::loop;
  bool byTime = false; // the orders depend on costs and memory, not on the shape alone
  bool pairs = false;  // two runs may be a pair, whose collectives overlap the products of both
};
const std::vector<ScheduleRow> &schedules();
// How many microbatches a row takes at most with so many stages (>= 1) of so many chunks (>= 1); 0: none.
int64_t mostMicrobatches(const ScheduleRow &row, int64_t stages, int64_t virtualStages);
// The row, or an error that lists the names; and an error when the row does not take the shape.
Result<const ScheduleRow *> findSchedule(const std::string &name, const Shape &shape);
// findSchedule, or where the problem has orders a row that returns them. The problem must outlive it.
Result<ScheduleRow> rowOf(const Problem &problem);

// An error when the problem is invalid: unknown schedule, sizes that are missing, negative or disagree.
Result<Solution> generate(const Problem &problem);

} // namespace mgc::schedule
