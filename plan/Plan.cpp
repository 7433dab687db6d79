#include "plan/Plan.h"

#include "plan/Names.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc::plan {

bool isPosition(Input::Kind kind) {
  return kind == Input::Kind::positions || kind == Input::Kind::keyPositions;
}

bool readsDocuments(Input::Kind kind) {
  return kind == Input::Kind::positionIds || kind == Input::Kind::documentStarts ||
         kind == Input::Kind::keyDocumentStarts;
}

bool readsDocuments(const Plan &plan) {
  return std::ranges::any_of(plan.stages, [](const StagePlan &stage) {
    return std::ranges::any_of(stage.inputs, [](const Input &input) { return readsDocuments(input.kind); });
  });
}

int64_t leastElementBytes(const Plan &plan) {
  return std::min(sizeInBytes(plan.dtype), sizeInBytes(plan.gradientType));
}

int64_t Ring::slots() const {
  int64_t end = 0;
  for (const Turn &turn : turns)
    end = std::max(end, turn.first + turn.slots);
  return end;
}

std::string Chunk::name() const {
  return isPerVirtualStage(task) ? fmt::format("{}.{}", nameOf(task), virtualStage)
                                 : std::string(nameOf(task));
}

std::string_view nameOf(Task task) { return nameIn(task); }
std::string_view nameOf(KernelLevel level) { return factsOf(level).name; }

std::optional<Task> taskNamed(std::string_view name) { return valueNamed<Task>(name); }

std::string describeTarget(const Plan &plan) {
  std::string text(nameOf(plan.target));
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? ':' : ',', nameOf(plan.kernels[i].level));
  return text;
}

} // namespace mgc::plan
