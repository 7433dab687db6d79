// See Labels.h.
#include "runtime/exec/Labels.h"

#include <algorithm>

namespace mgc {

std::set<int64_t> programsOfSeveralLayers(const plan::Plan &plan) {
  std::set<int64_t> programs;
  for (const plan::StagePlan &stage : plan.stages)
    for (const plan::Chunk &chunk : stage.chunks)
      if (std::ranges::find(plan::kBlockTasks, chunk.task) != plan::kBlockTasks.end())
        for (const plan::Call &call : chunk.calls)
          if (call.instance > 0 || call.instanceStride > 0)
            programs.insert(call.program);
  return programs;
}

std::string labelOf(std::string_view label, int64_t instance, bool isOfSeveralLayers) {
  std::string text(label);
  const std::string number = std::to_string(instance);
  for (size_t at = text.find("{}"); at != text.npos; at = text.find("{}", at))
    text.replace(at, 2, number);
  const std::string_view program = std::string_view(text).substr(0, text.find('/'));
  if (const size_t dot = program.find('.'); isOfSeveralLayers && dot != program.npos)
    text.insert(dot, "." + number);
  return text;
}

} // namespace mgc
