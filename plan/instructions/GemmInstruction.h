// The instruction "gemm": a matrix product by the device's library.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <optional>
#include <string>

namespace mgc::plan {

class AttributeChecks;

// How a matrix product is divided into library calls: runtime/kernels/GemmPaths.h. rule: the runtime chooses. Each
// gives the same result, to rounding.
enum class GemmPath { rule, whole, rows, columns };
template <>
inline constexpr auto enumNames<GemmPath> = std::to_array<std::string_view>({"rule", "whole", "rows", "columns"});

// An epilogue is applied to a matrix product's sums X before they are rounded. bias: C = X + bias.
enum class Epilogue { none, bias };
template <> inline constexpr auto enumNames<Epilogue> = std::to_array<std::string_view>({"none", "bias"});
// Whether matrix products of plans for the target may have one: if its library makes it.
constexpr bool hasEpilogues(Target target) { return target == Target::cuda; }

// C[m,n] = (accumulate ? C : 0) + op(A)[m,k] * op(B)[k,n], row-major, without an epilogue. Operands A, B, [bias[n]], C,
// [workspace]. Sums are made in f32 and rounded once, to C's type.
struct Gemm {
  static constexpr std::string_view kName = "gemm";
  static constexpr WorkKind kWork = WorkKind::product;
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false; // A is stored [k,m]; B is stored [n,k]
  bool accumulate = false;                     // excludes an epilogue
  Epilogue epilogue = Epilogue::none;
  GemmPath path = GemmPath::rule;
  // The type of A and B, and the type of all other operands: f32 gives f32, bf16 either.
  DType inputType = DType::f32, outputType = DType::f32;
  int64_t workspaceBytes = 0; // size of the last operand, for a device's library; 0: there is none
  bool operator==(const Gemm &) const = default;

  OperandInfos operands(const Mesh &) const;
  Work work(const Mesh &) const;
  // m x n x k, and A and B as in a BLAS call: "256x768x3072 NT+" has B transposed and is added to C. Types that are not f32
  // follow: "bf16" of all, "bf16>f32" of the operands alone; then the epilogue: "bias".
  std::string sizes() const;
  void verify(AttributeChecks &checks) const;
};

// Places in the list of the operands behind A and B; -1: the matrix product has none.
struct GemmOperands {
  int64_t bias = -1, c = -1, workspace = -1;
};
GemmOperands operandNumbersOf(const Gemm &gemm);

template <typename V> constexpr void fields(V &v, Of<Gemm>) {
  required<&Gemm::m, &Gemm::n, &Gemm::k>(v);
  optional<&Gemm::transposeA, &Gemm::transposeB, &Gemm::accumulate, &Gemm::epilogue, &Gemm::path, &Gemm::inputType,
           &Gemm::outputType, &Gemm::workspaceBytes>(v);
}

} // namespace mgc::plan
