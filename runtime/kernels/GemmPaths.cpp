// See GemmPaths.h.
#include "runtime/kernels/GemmPaths.h"

#include "runtime/kernels/Parallel.h"

#include <algorithm>

namespace mgc {

namespace {

// Parts begin at multiples of these: columns at a cache line, rows where the library's own blocks may.
constexpr int64_t kRowUnit = 8, kColumnUnit = 16;

struct Part {
  int64_t begin = 0, count = 0;
};

Part partOf(int64_t size, int64_t unit, int64_t index, int64_t parts) {
  const int64_t units = (size + unit - 1) / unit;
  const int64_t begin = units * index / parts * unit, end = units * (index + 1) / parts * unit;
  return {begin, std::min(end, size) - begin};
}

bool always(const plan::Gemm &, int) { return true; }
bool hasRows(const plan::Gemm &gemm, int threads) { return threads > 1 && gemm.m >= threads * kRowUnit; }
bool hasColumns(const plan::Gemm &gemm, int threads) {
  return threads > 1 && gemm.n >= threads * kColumnUnit;
}

void runWhole(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  setLibraryThreads(threads);
  stridedGemm(gemm, a, b, c, gemm.n);
}

void runRows(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.m, kRowUnit, index, threads);
    plan::Gemm part = gemm;
    part.m = count;
    stridedGemm(part, {a.data + begin * (gemm.transposeA ? 1 : a.stride), a.stride}, b, c + begin * gemm.n,
                gemm.n);
  });
}

void runColumns(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.n, kColumnUnit, index, threads);
    plan::Gemm part = gemm;
    part.n = count;
    stridedGemm(part, a, {b.data + begin * (gemm.transposeB ? b.stride : 1), b.stride}, c + begin, gemm.n);
  });
}

constexpr GemmPathRow kPaths[] = {
    {plan::GemmPath::whole, always, runWhole},         // one call, divided by the library
    {plan::GemmPath::rows, hasRows, runRows},          // a call per thread, for equal parts of C's rows
    {plan::GemmPath::columns, hasColumns, runColumns}, // the same of its columns
};

} // namespace

std::span<const GemmPathRow> gemmPaths() { return kPaths; }

const GemmPathRow &gemmRule(const plan::Gemm &, int) { return kPaths[0]; }

const GemmPathRow &gemmPathOf(const plan::Gemm &gemm, int threads) {
  if (gemm.path == plan::GemmPath::rule)
    return gemmRule(gemm, threads);
  for (const GemmPathRow &row : kPaths)
    if (row.path == gemm.path && row.applies(gemm, threads))
      return row;
  return kPaths[0];
}

} // namespace mgc
