#include "runtime/exec/ExecutionPlace.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc {

std::string toString(const ExecutionPlace &place) {
  std::string text = fmt::format("rank {} (stage {}), step {}", place.rank, place.stage, place.step);
  if (place.microbatch >= 0)
    text += fmt::format(", microbatch {}", place.microbatch);
  if (!place.chunk.empty())
    text += fmt::format(", {}", place.chunk);
  if (!place.instruction.empty()) {
    const size_t program = std::min(place.instruction.find('/'), place.instruction.size());
    const std::string instance = place.instance < 0 ? "" : fmt::format("[{}]", place.instance);
    text += fmt::format(", {}{}{}", place.instruction.substr(0, program), instance, place.instruction.substr(program));
  }
  return text;
}

} // namespace mgc
