// The cost of a kernel, as bytes moved at memory bandwidth. In: the row ops of a kernel. Out: bytes.
//
//   each value it reads, once           values made inside and used there alone cost nothing: the gain of fusion
//   each value it yields, once
//   each costly op (exp, gelu, ..), again for every later op of the kernel that passes over the columns, since a pass
//     computes anew what it needs:      kCostlyBytes per element
//   its start on all threads:           kStartBytes
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// A costly op takes 0.6 ns per element on one core with AVX2 (gelu, test/bench/row_kernels), in which a core moves
// as many bytes at 20 GB/s.
inline constexpr double kCostlyBytes = 12;
// Threads begin and end a kernel together: a few microseconds.
inline constexpr double kStartBytes = 64 << 10;
// Beyond these a kernel spills registers and compiles slowly. A sum over rows is held in four registers of AVX2.
inline constexpr size_t kMostOps = 16, kMostValues = 20, kMostRowSums = 3;

// Nothing where the ops cannot be one kernel: they have no common space, one needs a sum over rows or a looked-up
// table that another makes, or there are too many.
std::optional<double> kernelCost(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace mgc
