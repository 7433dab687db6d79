// mg.complete: a unit attribute of an op whose operands are complete, although its axis rule lets a pending sum pass.
//
//     %branch = mg.einsum ..                       : bf16, s, b, h, sum [tp]
//     %wide = mg.cast %branch {mg.complete}        : f32, s [tp], b, h       reduce-scattered before, as bf16
//     %stream = mg.add %x, %wide                   : f32, s [tp], b, h
//
// Without it the cast passes the sum on, and f32 is reduced: twice the traffic, and another sum than the one that bf16 gives.
// The gradient of the cast has it too.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mgc {

inline constexpr llvm::StringLiteral kCompleteAttr = "mg.complete";

} // namespace mgc
