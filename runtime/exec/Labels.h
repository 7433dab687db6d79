// Names of instructions for people: in errors, traces and profiles.
#pragma once

#include "plan/Plan.h"

#include <set>
#include <string>
#include <string_view>

namespace mgc {

// Programs, by number, that some call of a block runs for another layer than the first.
std::set<int64_t> programsOfSeveralLayers(const plan::Plan &plan);

// "layer.forward/einsum h.{}.w" of instance 3: "layer.3.forward/einsum h.3.w" where its program is of several layers, and else
// "layer.forward/einsum h.3.w".
std::string labelOf(std::string_view label, int64_t instance, bool isOfSeveralLayers);

} // namespace mgc
