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

std::optional<Task> taskNamed(std::string_view name) {
  const auto found = std::ranges::find(enumNames<Task>, name);
  if (found == enumNames<Task>.end())
    return std::nullopt;
  return static_cast<Task>(found - enumNames<Task>.begin());
}

} // namespace mgc::plan
