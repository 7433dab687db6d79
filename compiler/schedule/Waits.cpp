// See Waits.h.
#include "compiler/schedule/Waits.h"

#include "compiler/schedule/Happens.h"

#include <algorithm>

namespace mgc::schedule {
namespace {

MemoryTracker trackerFor(const StageSchedule &stage) {
  std::vector<int64_t> cuts;
  for (const Buffer &buffer : stage.buffers) {
    cuts.push_back(buffer.offset);
    cuts.push_back(buffer.offset + buffer.bytes);
  }
  return MemoryTracker(std::move(cuts));
}

// The steps that `index` must follow; records its accesses.
std::vector<int64_t> mustFollow(MemoryTracker &memory, const StageSchedule &stage, int64_t index) {
  const Step &step = stage.steps[index];
  std::vector<int64_t> earlier;
  for (const BufferUse &use : step.reads)
    memory.visit(stage.buffers[use.buffer].offset, stage.buffers[use.buffer].bytes, [&](auto &segment) {
      earlier.push_back(segment.writer);
      segment.readers.push_back(index);
    });
  for (const BufferUse &use : step.writes)
    memory.visit(stage.buffers[use.buffer].offset, stage.buffers[use.buffer].bytes, [&](auto &segment) {
      earlier.push_back(segment.writer);
      earlier.insert(earlier.end(), segment.readers.begin(), segment.readers.end());
      segment.writer = index;
      segment.readers.clear();
    });
  std::sort(earlier.rbegin(), earlier.rend());
  earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
  std::erase_if(earlier, [&](int64_t other) { return other < 0 || other == index; });
  return earlier;
}

} // namespace

void addWaits(StageSchedule &stage) {
  MemoryTracker memory = trackerFor(stage);
  HappensBefore happens;
  for (size_t i = 0; i < stage.steps.size(); ++i) {
    Step &step = stage.steps[i];
    bool isRun = step.kind == Step::Kind::run;
    happens.append(isRun ? HappensBefore::kCompute
                         : HappensBefore::messages(step.peer, step.kind == Step::Kind::send),
                   {});
    step.waits.clear();
    for (int64_t other : mustFollow(memory, stage, int64_t(i))) // latest first: it tends to imply the others
      if (!happens.completed(other)) {
        happens.addWait(other);
        step.waits.push_back(other);
      }
    std::sort(step.waits.begin(), step.waits.end());
  }
}

} // namespace mgc::schedule
