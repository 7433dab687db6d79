// The row kernels of a library, and what each was compiled for.
#pragma once

#include "plan/Plan.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mgc {

// void kernel(operands, scalars, begin, end): the rows [begin, end) of a plan::RowKernel, on the CPU.
using RowFunction = void (*)(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end);

// A kernel's requirements, as its library knows them from the compilation.
struct KernelNeeds {
  int64_t range = 0, scalars = 0; // exactly; at least
  std::vector<plan::RowKernel::Operand> operands;
};
// From an array as plan::kNeedsSuffix says; nothing where it is none.
std::optional<KernelNeeds> needsIn(std::span<const int64_t> numbers);
constexpr int64_t needsSize(int64_t operands) { return 3 + 4 * operands; } // length of the array

// The requirements of the generated kernels of a plan.
class KernelFacts {
public:
  virtual ~KernelFacts() = default;
  // Nothing where the library lacks it: kernels written by hand.
  virtual std::optional<KernelNeeds> needsOf(const std::string &symbol) const = 0;
};

} // namespace mgc
