#include "plan/Plan.h"

#include "plan/Names.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc::plan {

int64_t sizeInBytes(DType type) { return type == DType::bf16 ? 2 : 4; }

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

template <typename Enum> static std::string_view nameIn(Enum value) {
  return enumNames<Enum>[static_cast<size_t>(value)];
}
std::string_view nameOf(Task task) { return nameIn(task); }
std::string_view nameOf(Collective::Kind kind) { return nameIn(kind); }
std::string_view nameOf(ReduceKind kind) { return nameIn(kind); }
std::string_view nameOf(OperandUse use) { return nameIn(use); }
std::string_view nameOf(DType type) { return nameIn(type); }
std::string_view nameOf(Target target) { return nameIn(target); }
std::string_view nameOf(KernelLevel level) { return factsOf(level).name; }
std::string_view nameOf(GemmPath path) { return nameIn(path); }
std::string_view nameOf(Epilogue epilogue) { return nameIn(epilogue); }

template <typename Enum> static std::optional<Enum> valueNamed(std::string_view name) {
  const auto found = std::ranges::find(enumNames<Enum>, name);
  if (found == enumNames<Enum>.end())
    return std::nullopt;
  return static_cast<Enum>(found - enumNames<Enum>.begin());
}
std::optional<Task> taskNamed(std::string_view name) { return valueNamed<Task>(name); }
std::optional<GemmPath> gemmPathNamed(std::string_view name) { return valueNamed<GemmPath>(name); }

std::string describeTarget(const Plan &plan) {
  std::string text(nameOf(plan.target));
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? ':' : ',', nameOf(plan.kernels[i].level));
  return text;
}

static std::string typesOf(const Gemm &gemm) {
  if (gemm.inputType == DType::f32 && gemm.outputType == DType::f32)
    return "";
  return gemm.inputType == gemm.outputType
             ? fmt::format(" {}", nameOf(gemm.inputType))
             : fmt::format(" {}>{}", nameOf(gemm.inputType), nameOf(gemm.outputType));
}

std::string sizesOf(const Gemm &gemm) {
  return fmt::format("{}x{}x{} {}{}{}{}{}", gemm.m, gemm.n, gemm.k, gemm.transposeA ? 'T' : 'N',
                     gemm.transposeB ? 'T' : 'N', gemm.accumulate ? "+" : "", typesOf(gemm),
                     gemm.epilogue == Epilogue::none ? "" : fmt::format(" {}", nameOf(gemm.epilogue)));
}

} // namespace mgc::plan
