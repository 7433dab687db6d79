// The instruction "rowKernel": a call of a generated kernel (codegen/rows).
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Generated: void symbol(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end), and what the plan
// must give it: const int64_t symbol_needs[] = {range, least number of scalars, n = number of operands, then the numbers of
// RowKernel::Operand for each: use, bytes, rowBytes, rowStride}; the use plus kCountedUse where its rows are counted.
inline constexpr std::string_view kNeedsSuffix = "_needs";
inline constexpr int64_t kCountedUse = 4;
static_assert(static_cast<int64_t>(OperandUse::updated) < kCountedUse);
// On a GPU: .entry symbol(operands.., scalars..), each of 64 bits, which covers the whole range at once when it is launched
// as const int64_t symbol_launch[] = {blocks, threads of a block, bytes of dynamic shared memory} says.
inline constexpr std::string_view kLaunchSuffix = "_launch";
struct RowKernel {
  static constexpr std::string_view kName = "rowKernel";
  static constexpr WorkKind kWork = WorkKind::row;
  // The use that the kernel makes of an operand, in rows of `rowBytes` that begin `rowStride` bytes apart, `bytes` in all; 0: one
  // after another.
  struct Operand {
    OperandUse use = OperandUse::read;
    int64_t bytes = 0, rowBytes = 0, rowStride = 0;
    bool counted = false; // rows of which only those that there are are touched (OperandInfo::isCounted)
    bool operator==(const Operand &) const = default;
  };
  std::string symbol; // in kernels/
  int64_t range = 0;  // the kernel may be split over [0, range) at will: parts are independent
  std::vector<Scalar> scalars = {};
  double flops = 0, bytes = 0;    // cost of the whole range
  std::vector<Operand> uses = {}; // one per operand, as in Instruction::operands
  bool operator==(const RowKernel &) const = default;

  OperandInfos operands(const Mesh &) const;
  // It loads what an element needs before it stores it.
  static bool mayWorkInPlace() { return true; }
  Work work(const Mesh &) const;
  std::string kernel(std::string_view label) const; // the symbol alone: equal kernels have one
  std::vector<const Scalar *> runScalars() const;
  void verify(AttributeChecks &checks) const;
};

template <> inline constexpr bool isTuple<RowKernel::Operand> = true;

template <typename V> constexpr void fields(V &v, Of<RowKernel::Operand>) {
  required<&RowKernel::Operand::use, &RowKernel::Operand::bytes>(v);
  optional<&RowKernel::Operand::rowBytes, &RowKernel::Operand::rowStride, &RowKernel::Operand::counted>(v);
}

template <typename V> constexpr void fields(V &v, Of<RowKernel>) {
  required<&RowKernel::symbol, &RowKernel::range>(v);
  optional<&RowKernel::scalars, &RowKernel::flops, &RowKernel::bytes>(v);
  required<&RowKernel::uses>(v);
}

} // namespace mgc::plan
