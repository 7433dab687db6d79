// Proves, by bytes, which memory a run of a chunk reads and writes, following its calls in order. In: a plan that
// passed verifyPlan. Out: the bytes of each slot and of the allocation that the run reads before it writes them, and
// those that it writes; or what is wrong:
//   bytes of the frame are read that the call before did not write     gradients flow from call to call, and no further
//   transient bytes are read that no call of the run before wrote, or written and not read    they live while the chunk runs
//   segments of a call overlap in bytes that the program writes
#pragma once

#include "plan/prove/ProgramFlow.h"
#include "plan/prove/TransientMemory.h"

#include <map>
#include <tuple>

namespace mgc::plan {

struct ChunkFlow {
  std::vector<SegmentFlow> slots;
  SegmentFlow allocation; // without what is read and written in the frame
  ByteSet frame;          // the bytes that it uses of the frame, of units, and of transient memory
  // For a run of some of the calls: bytes that it reads from the calls before, of the frame and of transient memory, and
  // those that are left to the next one: in the frame by its last link, and all that is transient.
  ByteSet continued, left;
};

// Where the segments of the call's program lie: segments bound to the same bytes are one.
std::vector<int64_t> placesOf(const Call &call);

// The flows of a plan's programs and chunks, each made once.
class Flows {
public:
  Flows(const Plan &plan, Problems &problems) : plan_(plan), problems_(problems) {}
  // The flow of the calls [first, end), with repeats unrolled.
  const ChunkFlow &of(int64_t stage, int64_t chunk, int64_t first, int64_t end);
  const ProgramFlow &of(int64_t program, const std::vector<int64_t> &place);

private:
  const Plan &plan_;
  Problems &problems_;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, ChunkFlow> chunks_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, TransientMemory>
      left_; // by stage, chunk, end of a run of some of the calls
  std::map<std::pair<int64_t, std::vector<int64_t>>, ProgramFlow> programs_;
};

} // namespace mgc::plan
