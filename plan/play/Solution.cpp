// See Solution.h.
#include "plan/play/Solution.h"

#include <fmt/format.h>

namespace mgc::schedule {

const char *nameOf(BufferKind kind) {
  static constexpr const char *names[] = {"input",       "activation", "output",   "gradientIn",
                                          "gradientOut", "split",      "offloaded"};
  return names[int(kind)];
}

std::string toString(const ScheduledTask &task) {
  std::string text(nameOf(task.kind));
  if (task.chunk >= 0)
    text += fmt::format(" chunk {}", task.chunk);
  if (task.microbatch >= 0)
    text += fmt::format(" microbatch {}", task.microbatch);
  return task.part < 0 ? text : text + fmt::format(" part {}", task.part);
}

std::string toString(const Step &step) {
  if (step.kind == Step::Kind::run)
    return "run " + toString(step.task);
  bool isSend = step.kind == Step::Kind::send, isGradient = step.value % 2 != 0;
  return fmt::format("{} {} of global chunk {} microbatch {} {} stage {}", isSend ? "send" : "recv",
                     isGradient ? "gradient" : "activation", step.value / 2, step.microbatch, isSend ? "to" : "from",
                     step.peer);
}

char letterOf(TaskKind kind) { return "ZFBIWGRU"[int(kind)]; }

double ChunkCost::*costOf(TaskKind kind) {
  static constexpr double ChunkCost::*fields[] = {nullptr,
                                                  &ChunkCost::forward,
                                                  &ChunkCost::backward,
                                                  &ChunkCost::input,
                                                  &ChunkCost::weight,
                                                  &ChunkCost::gradients,
                                                  nullptr,
                                                  nullptr};
  return fields[int(kind)];
}

} // namespace mgc::schedule
