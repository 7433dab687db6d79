// See PhaseText.h.
#include "compiler/assemble/PhaseText.h"

#include "compiler/step/StateBuffers.h"
#include "mlir/IR/AsmState.h"
#include "plan/Expand.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mgc {

namespace {

using schedule::Step;

// --- The schedule

using schedule::PeriodicStage;
using schedule::PeriodicStep;

// "3", or "3 + i" and "8 - 2 i" in iteration i of a repeat.
std::string microbatchText(const PeriodicStep &step) {
  const int64_t stride = step.microbatchStride;
  if (stride == 0)
    return fmt::to_string(step.step.microbatch);
  return fmt::format("{} {} {}i", step.step.microbatch, stride < 0 ? '-' : '+',
                     std::abs(stride) == 1 ? "" : fmt::format("{} ", std::abs(stride)));
}

std::string runText(const PeriodicStep &step) {
  const schedule::ScheduledTask &task = step.step.task;
  std::string text = fmt::format("run {}", plan::nameOf(task.kind));
  if (task.chunk >= 0)
    text += fmt::format(".{}", task.chunk);
  if (task.microbatch >= 0)
    text += " microbatch " + microbatchText(step);
  if (task.paired)
    text += ", paired";
  return task.part < 0 ? text : text + fmt::format(" part {}", task.part);
}

std::string transferText(const PeriodicStage &schedule, const PeriodicStep &step) {
  const bool isSend = step.step.kind == Step::Kind::send;
  const int64_t ring = (isSend ? step.step.reads : step.step.writes).front().buffer;
  return fmt::format("{} {} microbatch {} {} stage {}, {} bytes", isSend ? "send" : "recv", schedule.rings[ring].name,
                     microbatchText(step), isSend ? "->" : "<-", step.step.peer, step.step.bytes);
}

std::string stepText(const PeriodicStage &schedule, const PeriodicStep &step) {
  std::string text = step.step.kind == Step::Kind::run ? runText(step) : transferText(schedule, step);
  return step.step.waits.empty() ? text + "\n"
                                 : fmt::format("{}, waits {} back\n", text, fmt::join(step.step.waits, ", "));
}

std::string stageScheduleText(const StageDecisions &stage) {
  const PeriodicStage &schedule = stage.schedule;
  std::string text =
      fmt::format("stage {}: {} steps, {} bytes for activations\n", int64_t(StageOp(stage.op).getNumber()),
                  plan::runCount(schedule.steps.size(), schedule.repeats), schedule.bytes);
  size_t next = 0;
  for (int64_t i = 0; i < int64_t(schedule.steps.size()); ++i) {
    if (next < schedule.repeats.size() && schedule.repeats[next].end <= i)
      ++next;
    const bool isInside = next < schedule.repeats.size() && schedule.repeats[next].begin <= i;
    if (isInside && schedule.repeats[next].begin == i)
      text += fmt::format("  {} times, i = 0 ..\n", schedule.repeats[next].count);
    text += (isInside ? "    " : "  ") + stepText(schedule, schedule.steps[i]);
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
        add("    step scalars at {}\n    results at {}\n    clip factor at {}\n", memory_.stepScalars, memory_.results,
            memory_.factor);
      else if (region.kind == "inputs")
        addInputs();
      else if (region.kind == "activations")
        addActivations();
      else if (region.kind == "frame")
        add("    gradients between instances at {}\n    frames at {}{}\n", memory_.flow, memory_.frame,
            memory_.forwardFrame == memory_.frame ? "" : fmt::format(", of forward at {}", memory_.forwardFrame));
    }
    return std::move(text_);
  }

private:
  template <typename... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void addBuckets(const std::string &region) {
    std::map<int64_t, std::string> lines; // by offset
    for (const plan::Bucket &bucket : memory_.buckets)
      for (const plan::State &state : bucket.states)
        if (region == plan::kHostOptimizer && state.hostElements > 0)
          lines[state.hostOffset] += fmt::format("    {}.{} at {}, {} elements\n", bucket.name, state.name,
                                                 state.hostOffset, state.hostElements);
        else if (region == StringRef(plan::regionOf(state.role)))
          lines[state.offset] += fmt::format("    {}.{} at {}\n", bucket.name, state.name, state.offset);
    for (const auto &[offset, line] : lines)
      text_ += line;
  }

  void addInputs() {
    for (const auto &[data, input] : memory_.inputs)
      addRing(input.ring, 0);
  }

  void addActivations() {
    for (const plan::Ring &ring : stage_.schedule.rings)
      addRing(ring, memory_.activations);
  }

  void addRing(const plan::Ring &ring, int64_t area) {
    std::vector<std::string> turns;
    for (const auto &[first, slots, phase] : ring.turns)
      turns.push_back(fmt::format("{} from {} on{}", slots, first, phase > 0 ? fmt::format(", phase {}", phase) : ""));
    add("    {}: slots of {} bytes, {} apart from {} on; {}\n", ring.name, ring.bytes, ring.stride, area + ring.offset,
        fmt::join(turns, "; "));
  }

  const StageDecisions &stage_;
  const StageMemory &memory_;
  std::string text_;
};

std::string frameText(func::FuncOp function, const FunctionFrame &frame) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  AsmState names(function);
  stream << "function " << function.getName() << ": frame of " << frame.bytes << " bytes, " << frame.leastBytes
         << " at least\n";
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
      stream << "  workspace of " << op->getName() << ": " << workspaceBytes(op) << " bytes at " << place->second
             << "\n";
  });
  return text;
}

} // namespace

std::string scheduleText(const Decisions &decisions) {
  std::string text = "// The steps of each stage in order. A step that \"waits 3 back\" starts when the step "
                     "that ran 3 steps\n"
                     "// before it is done; iterations of what runs several times count.\n";
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
