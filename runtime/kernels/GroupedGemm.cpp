#include "runtime/kernels/GroupedGemm.h"

#include "plan/instructions/RowErrors.h"
#include "runtime/kernels/CpuGemm.h"

#include <cstring>

namespace mgc {

static Status verifyCounts(const plan::GroupedGemm &gemm, const int32_t *counts) {
  int64_t rows = 0;
  for (int64_t group = 0; group < gemm.groups; ++group) {
    rows += counts[group];
    if (counts[group] < 0 || rows > gemm.rows)
      return plan::wrongCount(group, gemm.groups, counts[group], rows, gemm.rows);
  }
  return Status::ok();
}

// The matrix product of a group: `count` is m of form rows, k of form sums.
static plan::Gemm productOf(const plan::GroupedGemm &gemm, int64_t count) {
  plan::Gemm product{.n = gemm.n, .accumulate = gemm.accumulate};
  product.inputType = gemm.inputType, product.outputType = gemm.outputType;
  if (gemm.form == plan::GroupedGemm::Form::rows) {
    product.m = count, product.k = gemm.k;
    product.transposeB = gemm.transposeB;
  } else {
    product.m = gemm.m, product.k = count;
    product.transposeA = true;
  }
  return product;
}

static const std::byte *advanced(const void *data, int64_t elements, plan::DType type) {
  return static_cast<const std::byte *>(data) + elements * plan::sizeInBytes(type);
}

Status groupedGemm(const plan::GroupedGemm &gemm, const void *a, const void *b, const int32_t *counts, void *c,
                   int threads) {
  MGC_TRY(verifyCounts(gemm, counts));
  const bool isSums = gemm.form == plan::GroupedGemm::Form::sums;
  auto *results = static_cast<std::byte *>(c);
  int64_t row = 0;
  for (int64_t group = 0; group < gemm.groups; row += counts[group++]) {
    const int64_t fromA = row * (isSums ? gemm.m : gemm.k);
    const int64_t fromB = isSums ? row * gemm.n : group * gemm.k * gemm.n;
    const int64_t to = (isSums ? group * gemm.m : row) * gemm.n;
    std::byte *result = results + to * plan::sizeInBytes(gemm.outputType);
    if (counts[group] > 0)
      gemmOfVaryingSizes(productOf(gemm, counts[group]), advanced(a, fromA, gemm.inputType),
                         advanced(b, fromB, gemm.inputType), result, threads);
    else if (isSums && !gemm.accumulate)
      std::memset(result, 0, gemm.m * gemm.n * plan::sizeInBytes(gemm.outputType));
  }
  return Status::ok();
}

} // namespace mgc
