// Parts of the table of ModelFlags.h.
#pragma once

#include "model/ModelFlags.h"

namespace mgc::frontend {

inline constexpr std::string_view kNone = "none"; // the model has no such part

// Positions, windows and the softmax of attention.
std::vector<ModelFlag> positionFlags();

} // namespace mgc::frontend
