// See VerifyData.h. Each byte of a stage's area carries what was last written there: a step and a content,
// which is a value (activation or gradient of a boundary, saved activation, split) of a microbatch. Steps are
// visited in list order.
#include "test/compiler/schedule/VerifyData.h"

#include "compiler/schedule/Happens.h"

#include <algorithm>
#include <map>

namespace mgc::schedule {
namespace {

class DataCheck {
public:
  DataCheck(const Problem &problem, const Solution &solution, int64_t stageIndex, Problems &problems)
      : problem(problem), shape(problem.shape), stage(solution.stages[stageIndex]), index(stageIndex),
        problems(problems), memory(cuts(solution.stages[stageIndex])) {}

  void check() {
    for (current = 0; current < int64_t(stage.steps.size()); ++current) {
      const Step &step = stage.steps[current];
      if (step.kind == Step::Kind::run) {
        happens.append(HappensBefore::runs(step.task.kind == TaskKind::gradients), step.waits, isPaired(step));
        checkUses(step);
        checkGradients(step);
      } else {
        happens.append(HappensBefore::messages(step.peer, step.kind == Step::Kind::send), step.waits);
        checkMessage(step);
      }
      for (const BufferUse &use : step.reads)
        read(step, use);
      for (const BufferUse &use : step.writes)
        write(step, use);
    }
  }

private:
  static std::vector<int64_t> cuts(const StageSchedule &stage) {
    std::vector<int64_t> result;
    for (const ScheduledBuffer &buffer : stage.buffers) {
      result.push_back(buffer.offset);
      result.push_back(buffer.offset + buffer.bytes);
    }
    return result;
  }

  std::string here() const {
    return fmt::format("stage {} step {} ({})", index, current, toString(stage.steps[current]));
  }
  std::string there(int64_t step) const { return fmt::format("step {} ({})", step, toString(stage.steps[step])); }

  // A run reads and writes exactly what the access table says.
  void checkUses(const Step &step) {
    for (int64_t k = 0; k < kBufferKinds; ++k) {
      int64_t bytes = step.microbatch < 0 ? 0 : bytesOf(problem, index, step.task.chunk, BufferKind(k));
      BufferAccess access = bytes > 0 ? problem.access[int(step.task.kind)][k] : BufferAccess::none;
      checkUse(step.reads, BufferKind(k), access == BufferAccess::read ? bytes : -1, "reads");
      checkUse(step.writes, BufferKind(k), access == BufferAccess::write ? bytes : -1, "writes");
    }
  }

  // bytes -1: the kind is not used.
  void checkUse(const std::vector<BufferUse> &uses, BufferKind kind, int64_t bytes, const char *verb) {
    int64_t count = 0;
    for (const BufferUse &use : uses) {
      if (use.kind != kind)
        continue;
      ++count;
      if (bytes >= 0 && stage.buffers[use.buffer].bytes != bytes)
        problems.add("{}: its {} has {} bytes, expected {}", here(), nameOf(kind), stage.buffers[use.buffer].bytes,
                     bytes);
    }
    if (count != (bytes >= 0))
      problems.add("{} {} {} buffers of kind {}, expected {}", here(), verb, count, nameOf(kind), int(bytes >= 0));
  }

  // Gradients are completed after the part that made them, and all that are before reduce uses them.
  void checkGradients(const Step &step) {
    auto follow = [&](int64_t other) {
      if (!happens.completed(other))
        problems.add("{} is not ordered after {}, whose gradients it needs; a wait is missing", here(), there(other));
    };
    if (step.task.kind == TaskKind::gradients) {
      if (auto part = partSteps.find({step.task.chunk, step.task.part}); part == partSteps.end())
        problems.add("{} comes before the part that makes its gradients", here());
      else
        follow(part->second);
      gradientSteps.push_back(current);
    } else if (step.task.part >= 0) {
      partSteps[{step.task.chunk, step.task.part}] = current;
    } else if (step.task.kind == TaskKind::reduce) {
      for (int64_t other : gradientSteps)
        follow(other);
    }
  }

  void checkMessage(const Step &step) {
    bool isSend = step.kind == Step::Kind::send;
    const std::vector<BufferUse> &uses = isSend ? step.reads : step.writes;
    if (uses.size() != 1 || !(isSend ? step.writes : step.reads).empty())
      problems.add("{}: a send reads one buffer, a recv writes one", here());
    else if (stage.buffers[uses[0].buffer].bytes != step.bytes)
      problems.add("{}: {} bytes of a buffer of {} bytes", here(), step.bytes, stage.buffers[uses[0].buffer].bytes);
  }

  // The content that a step expects, or leaves, in a buffer: a number that is equal for the same value of the same
  // microbatch.
  int64_t content(const Step &step, BufferKind kind) const {
    if (step.kind != Step::Kind::run)
      return step.value * shape.microbatches + step.microbatch;
    int64_t global = shape.globalChunk(index, step.task.chunk), value = 0;
    switch (kind) {
    case BufferKind::input:
      value = activationValue(global - 1);
      break;
    case BufferKind::output:
      value = activationValue(global);
      break;
    case BufferKind::gradientIn:
      value = gradientValue(global);
      break;
    case BufferKind::gradientOut:
      value = gradientValue(global - 1);
      break;
    case BufferKind::activation:
      value = 2 * shape.chunks() + global;
      break;
    case BufferKind::split:
      value = 3 * shape.chunks() + global;
      break;
    }
    return value * shape.microbatches + step.microbatch;
  }

  // A part that is not the last leaves what it writes unfinished.
  static constexpr int64_t kUnfinished = -2;
  bool isUnfinished(const Step &step) const {
    return step.task.part >= 0 && step.task.part + 1 < problem.partsOf(index, step.task.chunk);
  }

  void read(const Step &step, const BufferUse &use) {
    const ScheduledBuffer &buffer = stage.buffers[use.buffer];
    int64_t expected = content(step, use.kind), unordered = -1;
    bool isWrong = false;
    memory.visit(buffer.offset, buffer.bytes, [&](MemoryTracker::Segment &segment) {
      isWrong |= segment.content != expected;
      if (segment.writer >= 0 && !happens.completed(segment.writer))
        unordered = segment.writer;
      segment.readers.push_back(current);
    });
    if (isWrong)
      problems.add("{} reads its {} from bytes [{}, {}), which do not hold it there", here(), nameOf(use.kind),
                   buffer.offset, buffer.offset + buffer.bytes);
    if (unordered >= 0)
      problems.add("{} reads its {} from bytes [{}, {}) without being ordered after {}, which writes "
                   "there; a wait is missing",
                   here(), nameOf(use.kind), buffer.offset, buffer.offset + buffer.bytes, there(unordered));
  }

  void write(const Step &step, const BufferUse &use) {
    const ScheduledBuffer &buffer = stage.buffers[use.buffer];
    int64_t unordered = -1;
    auto follow = [&](int64_t other) {
      if (other >= 0 && (other == current || !happens.completed(other)))
        unordered = other;
    };
    memory.visit(buffer.offset, buffer.bytes, [&](MemoryTracker::Segment &segment) {
      follow(segment.writer);
      for (int64_t reader : segment.readers)
        follow(reader);
      segment.writer = current;
      segment.content = isUnfinished(step) ? kUnfinished : content(step, use.kind);
      segment.readers.clear();
    });
    if (unordered == current)
      problems.add("{}: its {} at bytes [{}, {}) overlaps another buffer it uses", here(), nameOf(use.kind),
                   buffer.offset, buffer.offset + buffer.bytes);
    else if (unordered >= 0)
      problems.add("{} writes its {} to bytes [{}, {}) without being ordered after {}, which uses them; "
                   "a wait is missing or the memory may not be shared",
                   here(), nameOf(use.kind), buffer.offset, buffer.offset + buffer.bytes, there(unordered));
  }

  const Problem &problem;
  const Shape &shape;
  const StageSchedule &stage;
  int64_t index, current = 0;
  Problems &problems;
  MemoryTracker memory;
  HappensBefore happens;
  std::map<std::pair<int64_t, int64_t>, int64_t> partSteps; // (chunk, part) -> the step that ran it
  std::vector<int64_t> gradientSteps;                       // steps of task gradients so far
};

} // namespace

void verifyData(const Problem &problem, const Solution &solution, int64_t stage, Problems &problems) {
  DataCheck(problem, solution, stage, problems).check();
}

} // namespace mgc::schedule
