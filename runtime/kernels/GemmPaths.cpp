// See GemmPaths.h.
#include "runtime/kernels/GemmPaths.h"
#include "runtime/base/Rounding.h"

#include "runtime/kernels/GemmNative.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <memory>

namespace mgc {

namespace {

bool always(const plan::Gemm &, int) { return true; }
bool hasRows(const plan::Gemm &gemm, int threads) {
  return gemm.k > 0 && threads > 1 && gemm.m >= threads * kGemmRowUnit;
}
bool hasColumns(const plan::Gemm &gemm, int threads) {
  return gemm.k > (threads > 1 ? 0 : kGemmDepth) && gemm.n >= threads * kGemmColumnUnit;
}

// oneDNN has two codes for a matrix product. Its sgemm packs the operands of large products only, and is slow with a
// transposed B, or some transposed A, that it does not pack; matmul is faster there, and slower elsewhere
// (docs/performance.md, Matrix products).
bool isForMatmul(const plan::Gemm &gemm) {
  const double m = double(gemm.m), n = double(gemm.n);
  if (m < 16 || n < 16 || m * n * double(gemm.k) < 1 << 18 || !hasMatmul())
    return false;
  if (gemm.transposeB)
    return !gemm.transposeA && 1 / m + 1 / n > 1 / 510.0;
  return gemm.transposeA && gemm.m >= 1024 && gemm.m % 256 == 0 && gemm.n <= 512 && gemm.k >= 256;
}

void runWhole(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  if (isForMatmul(gemm) && matmulGemm(gemm, a.data, b.data, c, threads))
    return;
  setLibraryThreads(threads);
  stridedGemm(gemm, a, b, c, gemm.n);
}

// Without AVX-512 matmul is sgemm, which is slow with a transposed A that it does not pack: by a fifth at 1 / m + 1 / n =
// 1 / 256, not at all at 1 / 341.
bool needsPacking(const plan::Gemm &gemm) {
  return gemm.transposeA && gemm.m * gemm.n < 300 * (gemm.m + gemm.n) && !hasMatmul();
}

// A call for some of k. A transposed A that needs it is packed here, some rows at a time.
class DepthPart {
public:
  DepthPart(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC)
      : gemm_(gemm), a_(a), b_(b), c_(c), strideC_(strideC) {}

  void run() const {
    if (!needsPacking(gemm_))
      return stridedGemm(gemm_, a_, b_, c_, strideC_);
    static thread_local const auto packed = std::make_unique<Packed>(); // more than a small stack holds
    for (int64_t row = 0; row < gemm_.m; row += kPackedRows)
      runPacked(row, std::min(kPackedRows, gemm_.m - row), packed->values);
  }

private:
  static constexpr int64_t kPackedRows = 192,
                           kStride = kGemmDepth + kGemmDepthUnit; // no power of two: lines of all sets

  struct alignas(plan::kAlignment) Packed {
    float values[kPackedRows * kStride];
  };

  void runPacked(int64_t begin, int64_t rows, float *packed) const {
    transpose(a_.data + begin, rows, packed);
    plan::Gemm part = gemm_;
    part.m = rows;
    part.transposeA = false;
    stridedGemm(part, {packed, kStride}, b_, c_ + begin * strideC_, strideC_);
  }

  // from[k, rows] -> to[rows, k], tile by tile: a tile's lines stay in the first-level cache.
  void transpose(const float *from, int64_t rows, float *to) const {
    constexpr int64_t tile = 16;
    for (int64_t i0 = 0; i0 < rows; i0 += tile)
      for (int64_t p0 = 0; p0 < gemm_.k; p0 += tile)
        for (int64_t i = i0; i < std::min(i0 + tile, rows); ++i)
          for (int64_t p = p0; p < std::min(p0 + tile, gemm_.k); ++p)
            to[i * kStride + p] = from[p * a_.stride + i];
  }

  const plan::Gemm &gemm_;
  Matrix a_, b_;
  float *c_;
  int64_t strideC_;
};

} // namespace

// One call after another for parts of k, each added to the ones before.
void gemmInDepth(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC) {
  const int64_t parts = divideUp(gemm.k, kGemmDepth);
  for (int64_t index = 0; index < parts; ++index) {
    const auto [begin, count] = partOf(gemm.k, kGemmDepthUnit, index, parts);
    plan::Gemm part = gemm;
    part.k = count;
    part.accumulate |= index > 0;
    DepthPart(part, {a.data + begin * (gemm.transposeA ? a.stride : 1), a.stride},
              {b.data + begin * (gemm.transposeB ? 1 : b.stride), b.stride}, c, strideC)
        .run();
  }
}

namespace {

void runRows(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.m, kGemmRowUnit, index, threads);
    plan::Gemm part = gemm;
    part.m = count;
    gemmInDepth(part, {a.data + begin * (gemm.transposeA ? 1 : a.stride), a.stride}, b, c + begin * gemm.n, gemm.n);
  });
}

void runColumns(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.n, kGemmColumnUnit, index, threads);
    plan::Gemm part = gemm;
    part.n = count;
    gemmInDepth(part, a, {b.data + begin * (gemm.transposeB ? b.stride : 1), b.stride}, c + begin, gemm.n);
  });
}

// One call, divided by the library; or each thread computes an equal part of C's rows or columns, in calls of some of
// k.
constexpr GemmPathRow kPaths[] = {
    {plan::GemmPath::whole, always, runWhole},
    {plan::GemmPath::rows, hasRows, runRows},
    {plan::GemmPath::columns, hasColumns, runColumns},
};

const GemmPathRow &rowOf(plan::GemmPath path) { return *std::ranges::find(kPaths, path, &GemmPathRow::path); }

} // namespace

GemmPart partOf(int64_t size, int64_t unit, int64_t index, int64_t parts) {
  const int64_t units = divideUp(size, unit);
  const int64_t begin = units * index / parts * unit, end = units * (index + 1) / parts * unit;
  return {begin, std::min(end, size) - begin};
}

std::span<const GemmPathRow> gemmPaths() { return kPaths; }

// Calls of few k are slow where the rows of B and C are a multiple of 4 KiB long.
const GemmPathRow &gemmRule(const plan::Gemm &gemm, int threads) {
  const bool isPacked = needsPacking(gemm) && gemm.n % 1024 != 0;
  const bool byColumns = threads == 1 || gemm.n >= gemm.m;
  const GemmPathRow &row = rowOf(byColumns ? plan::GemmPath::columns : plan::GemmPath::rows);
  return isPacked && row.applies(gemm, threads) ? row : kPaths[0];
}

const GemmPathRow &gemmPathOf(const plan::Gemm &gemm, int threads) {
  if (gemm.path == plan::GemmPath::rule)
    return gemmRule(gemm, threads);
  const GemmPathRow &named = rowOf(gemm.path);
  return named.applies(gemm, threads) ? named : kPaths[0];
}

} // namespace mgc
