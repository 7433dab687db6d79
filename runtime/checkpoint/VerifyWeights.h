// Whether weights are fit to be saved.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/checkpoint/BucketBuffer.h"

#include <string_view>

namespace mgc {

// All ranks are here. Ranks that hold the same block have the same bits, values are finite and, where there are masters,
// the rounding of them; else up to 20 lines say which are not.
Status verifySavableWeights(const plan::Plan &plan, Arenas arenas);

// Up to 20 of them, if there are any: what is wrong with each parameter, in lines that begin with a line end.
inline constexpr std::string_view kNotSaved = "the weights are not fit to be saved; nothing was";
Status reportProblems(std::string_view what, const std::vector<std::string> &perParameter);

} // namespace mgc
