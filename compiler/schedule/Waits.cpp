// See Waits.h.
#include "compiler/schedule/Waits.h"

#include "compiler/schedule/Happens.h"

#include <algorithm>

namespace mgc::schedule {
namespace {

MemoryTracker trackerFor(const StageSchedule &stage) {
  std::vector<int64_t> cuts;
  for (const ScheduledBuffer &buffer : stage.buffers) {
    cuts.push_back(buffer.offset);
    cuts.push_back(buffer.offset + buffer.bytes);
  }
  return MemoryTracker(std::move(cuts));
}

// Gradients lie in no buffer of the schedule: who made those of a part, and who completed some.
struct LastOfGradients {
  int64_t part = -1, completed = -1; // the last step that ran a part; the last of task gradients

  // The step that `index` must follow for them, or -1.
  int64_t visit(const Step &step, int64_t index) {
    if (step.kind != Step::Kind::run)
      return -1;
    const bool completes = step.task.kind == TaskKind::gradients;
    const int64_t before = completes ? part : step.task.kind == TaskKind::reduce ? completed : -1;
    if (step.task.part >= 0)
      (completes ? completed : part) = index;
    return before;
  }
};

// The steps that `index` must follow; records its accesses.
std::vector<int64_t> mustFollow(MemoryTracker &memory, LastOfGradients &gradients, const StageSchedule &stage,
                                int64_t index) {
  const Step &step = stage.steps[index];
  std::vector<int64_t> earlier = {gradients.visit(step, index)};
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
  LastOfGradients gradients;
  HappensBefore happens;
  for (size_t i = 0; i < stage.steps.size(); ++i) {
    Step &step = stage.steps[i];
    const auto index = int64_t(i);
    happens.append(step.kind == Step::Kind::run ? HappensBefore::runs(step.task.kind == TaskKind::gradients)
                                                : HappensBefore::messages(step.peer, step.kind == Step::Kind::send),
                   {}, isPaired(step));
    step.waits.clear();
    if (isPaired(step))
      continue; // its waits are with the run before it
    std::vector<int64_t> earlier = mustFollow(memory, gradients, stage, index);
    if (i + 1 < stage.steps.size() && isPaired(stage.steps[i + 1])) {
      const std::vector<int64_t> ofOther = mustFollow(memory, gradients, stage, index + 1);
      earlier.insert(earlier.end(), ofOther.begin(), ofOther.end());
      std::erase(earlier, index); // no order could help: the proof finds what they share
      std::ranges::sort(earlier, std::greater());
    }
    for (int64_t other : earlier) // latest first: tends to imply the others
      if (!happens.completed(other)) {
        happens.addWait(other);
        step.waits.push_back(other);
      }
    std::sort(step.waits.begin(), step.waits.end());
  }
}

} // namespace mgc::schedule
