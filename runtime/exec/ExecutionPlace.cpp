#include "runtime/exec/ExecutionPlace.h"

#include "runtime/exec/Labels.h"

#include <fmt/format.h>

namespace mgc {

std::string toString(const ExecutionPlace &place) {
  std::string text = fmt::format("rank {} (stage {}), step {}", place.rank, place.stage, place.step);
  if (place.microbatch >= 0)
    text += fmt::format(", microbatch {}", place.microbatch);
  if (!place.chunk.empty())
    text += fmt::format(", {}", place.chunk);
  if (!place.instruction.empty())
    text += ", " + labelOf(place.instruction, place.layer, place.isOfSeveralLayers);
  return text;
}

} // namespace mgc
