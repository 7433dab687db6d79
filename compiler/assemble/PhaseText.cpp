// See PhaseText.h.
#include "compiler/assemble/PhaseText.h"

#include "compiler/stage/StateBuffers.h"
#include "mlir/IR/AsmState.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mgc {

namespace {

using schedule::Step;

// --- The schedule

std::string nameOfBuffer(const schedule::StageSchedule &schedule, const schedule::BufferUse &use) {
  return fmt::format("{} at {}", schedule::nameOf(use.kind), schedule.buffers[use.buffer].offset);
}

std::string runText(const schedule::StageSchedule &schedule, const Step &step) {
  std::string text = fmt::format("run {}", plan::nameOf(step.task.kind));
  if (step.task.chunk >= 0)
    text += fmt::format(".{}", step.task.chunk);
  if (step.microbatch >= 0)
    text += fmt::format(" microbatch {}", step.microbatch);
  if (step.task.part >= 0)
    text += fmt::format(" part {}", step.task.part);
  for (const auto *uses : {&step.reads, &step.writes})
    for (const schedule::BufferUse &use : *uses)
      text += ", " + nameOfBuffer(schedule, use);
  return text;
}

std::string transferText(const schedule::StageSchedule &schedule, const Step &step) {
  const bool isSend = step.kind == Step::Kind::send;
  const schedule::BufferUse &use = isSend ? step.reads.front() : step.writes.front();
  return fmt::format("{} {}.{} microbatch {} {} stage {}, {} bytes at {}", isSend ? "send" : "recv",
                     schedule::nameOf(use.kind), step.task.chunk, step.microbatch, isSend ? "->" : "<-",
                     step.peer, step.bytes, schedule.buffers[use.buffer].offset);
}

std::string stageScheduleText(const StageDecisions &stage) {
  const schedule::StageSchedule &schedule = stage.schedule;
  std::string text =
      fmt::format("stage {}: {} steps, {} bytes for activations\n", int64_t(StageOp(stage.op).getNumber()),
                  schedule.steps.size(), schedule.bytes);
  for (auto [i, step] : llvm::enumerate(schedule.steps)) {
    text += fmt::format(
        "  {}: {}", i, step.kind == Step::Kind::run ? runText(schedule, step) : transferText(schedule, step));
    text += step.waits.empty() ? "\n" : fmt::format(", after {}\n", fmt::join(step.waits, ", "));
  }
  return text;
}

// --- Memory

class MemoryText {
public:
  explicit MemoryText(const StageDecisions &stage) : stage_(stage), memory_(stage.memory) {}

  std::string run() {
    add("stage {}: {} bytes, {} at least\n", int64_t(StageOp(stage_.op).getNumber()), memory_.bytes,
        memory_.leastBytes);
    for (const plan::Region &region : memory_.regions) {
      add("  {}: {} bytes at {}\n", region.kind, region.bytes, region.offset);
      addBuckets(region.kind);
      if (region.kind == "scalars")
        add("    step scalars at {}\n    results at {}\n    clip factor at {}\n", memory_.stepScalars,
            memory_.results, memory_.factor);
      else if (region.kind == "inputs")
        addInputs();
      else if (region.kind == "activations")
        addActivations();
      else if (region.kind == "frame")
        add("    gradients between instances at {}\n    frames at {}\n", memory_.flow, memory_.frame);
    }
    return std::move(text_);
  }

private:
  template <typename... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void addBuckets(const std::string &region) {
    auto ops = StageOp(stage_.op).all<BucketOp>();
    for (const StateBuffer &buffer :
         stateBuffers(precisionOf(StageOp(stage_.op)->getParentOfType<ModuleOp>())))
      for (auto [op, bucket] : llvm::zip(ops, memory_.buckets))
        if (buffer.region == region && buffer.isOwnOf(op))
          add("    {}.{} at {}\n", bucket.name, buffer.name.str(), bucket.*buffer.offset);
  }

  void addInputs() {
    for (const auto &[data, input] : memory_.inputs)
      if (input.microbatchStride > 0)
        add("    {} at {}, {} bytes a microbatch\n", data, input.offset, input.microbatchStride);
      else
        add("    {} at {}, for all microbatches\n", data, input.offset);
  }

  void addActivations() {
    for (const schedule::ScheduledBuffer &buffer : stage_.schedule.buffers)
      add("    {}.{} microbatch {}: {} bytes at {}, steps {} to {}\n", schedule::nameOf(buffer.kind),
          buffer.chunk, buffer.microbatch, buffer.bytes, memory_.activations + buffer.offset, buffer.begin,
          buffer.end - 1);
  }

  const StageDecisions &stage_;
  const StageMemory &memory_;
  std::string text_;
};

std::string frameText(func::FuncOp function, const FunctionFrame &frame) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  AsmState names(function);
  stream << "function " << function.getName() << ": frame of " << frame.bytes << " bytes, "
         << frame.leastBytes << " at least\n";
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Value result : op->getResults()) {
      auto place = frame.offsets.find(result);
      const bool isPlaced = place != frame.offsets.end(), isInPlace = frame.inPlace.contains(op);
      if (!isPlaced && !isInPlace)
        continue;
      stream << "  ";
      result.printAsOperand(stream, names);
      stream << ": " << bytesOf(result.getType()) << " bytes";
      if (isPlaced)
        stream << " at " << place->second;
      stream << (isInPlace ? ", in place\n" : "\n");
    }
    if (auto place = frame.workspaces.find(op); place != frame.workspaces.end())
      stream << "  workspace of " << op->getName() << ": " << workspaceBytes(op) << " bytes at "
             << place->second << "\n";
  });
  return text;
}

} // namespace

std::string scheduleText(const Decisions &decisions) {
  std::string text =
      "// The steps of each stage in order. Places are bytes in the stage's activations. A step starts when\n"
      "// the steps behind \"after\" are done.\n";
  for (const StageDecisions &stage : decisions.stages)
    text += stageScheduleText(stage);
  return text;
}

std::string memoryText(const Decisions &decisions) {
  std::string text =
      "// Where everything lies in a rank's allocation, by stage. Then where the values of each function "
      "lie in its frame.\n";
  for (const StageDecisions &stage : decisions.stages)
    text += MemoryText(stage).run();
  for (auto function : ModuleOp(decisions.module).getOps<func::FuncOp>())
    if (auto frame = decisions.frames.find(function.getName().str()); frame != decisions.frames.end())
      text += frameText(function, frame->second);
  return text;
}

} // namespace mgc
