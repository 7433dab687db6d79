#include "runtime/plan/Plan.h"

#include "runtime/plan/Fields.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc::plan {

int64_t sizeInBytes(DType) { return 4; } // f32 and i32 alike

int64_t Mesh::worldSize() const {
  int64_t size = 1;
  for (const Axis &axis : axes)
    size *= axis.size;
  return size;
}

std::string Chunk::name() const {
  return isPerMicrobatch(task) ? fmt::format("{}.{}", nameOf(task), virtualStage) : std::string(nameOf(task));
}

template <typename Enum> static std::string_view nameIn(Enum value) {
  return enumNames<Enum>[static_cast<size_t>(value)];
}
std::string_view nameOf(Task task) { return nameIn(task); }
std::string_view nameOf(Collective::Kind kind) { return nameIn(kind); }
std::string_view nameOf(ReduceKind kind) { return nameIn(kind); }
std::string_view nameOf(DType type) { return nameIn(type); }
std::string_view nameOf(CpuLevel level) { return nameIn(level); }
std::string_view nameOf(GemmPath path) { return nameIn(path); }

template <typename Enum> static std::optional<Enum> valueNamed(std::string_view name) {
  const auto found = std::ranges::find(enumNames<Enum>, name);
  if (found == enumNames<Enum>.end())
    return std::nullopt;
  return static_cast<Enum>(found - enumNames<Enum>.begin());
}
std::optional<Task> taskNamed(std::string_view name) { return valueNamed<Task>(name); }
std::optional<GemmPath> gemmPathNamed(std::string_view name) { return valueNamed<GemmPath>(name); }

std::string sizesOf(const Gemm &gemm) {
  return fmt::format("{}x{}x{} {}{}{}", gemm.m, gemm.n, gemm.k, gemm.transposeA ? 'T' : 'N',
                     gemm.transposeB ? 'T' : 'N', gemm.accumulate ? "+" : "");
}

} // namespace mgc::plan
