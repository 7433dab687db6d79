// See GemmBf16.h.
#include "runtime/kernels/GemmBf16.h"
#include "runtime/base/Rounding.h"

#include "runtime/kernels/GemmNative.h"
#include "runtime/kernels/GemmPaths.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

namespace mgc {

namespace {

// The size of a tile of C: an element of A is converted once for so many columns, one of B for so many rows.
constexpr int64_t kTileRows = 512, kTileColumns = 768;
// Rows of panels are an odd number of cache lines apart: of a power of two, lines would fall into few sets of the cache.
constexpr int64_t kLine = plan::kAlignment / sizeof(float);

struct alignas(plan::kAlignment) Scratch {
  float a[(kTileRows + kLine) * (kGemmDepth + kLine)];
  float b[(kTileColumns + kLine) * (kGemmDepth + kLine)];
  float c[kTileRows * (kTileColumns + kLine)];
};

void widenRows(const Bf16 *from, int64_t stride, int64_t rows, int64_t columns, float *to, int64_t toStride) {
  for (int64_t row = 0; row < rows; ++row)
    widen(from + row * stride, columns, to + row * toStride);
}

// op(X)'s elements [rows, columns] as f32, stored as X is.
Matrix widenPanel(const Bf16 *x, bool isTransposed, int64_t stride, GemmPart rows, GemmPart columns, float *to) {
  if (isTransposed)
    std::swap(rows, columns);
  const int64_t toStride = ((columns.count / kLine + 1) | 1) * kLine;
  widenRows(x + rows.begin * stride + columns.begin, stride, rows.count, columns.count, to, toStride);
  return {to, toStride};
}

class Panels {
public:
  Panels(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c) : gemm_(gemm), a_(a), b_(b), c_(c) {}

  // The tiles of a part of C.
  void run(GemmPart rows, GemmPart columns) const {
    static thread_local const auto scratch = std::make_unique<Scratch>(); // more than a small stack holds
    const int64_t down = divideUp(rows.count, kTileRows), across = divideUp(columns.count, kTileColumns);
    for (int64_t i = 0; i < down; ++i)
      for (int64_t j = 0; j < across; ++j)
        runTile(within(rows, partOf(rows.count, kGemmRowUnit, i, down)),
                within(columns, partOf(columns.count, kGemmColumnUnit, j, across)), *scratch);
  }

private:
  static GemmPart within(GemmPart whole, GemmPart part) { return {whole.begin + part.begin, part.count}; }

  void runTile(GemmPart rows, GemmPart columns, Scratch &scratch) const {
    const int64_t at = rows.begin * gemm_.n + columns.begin;
    if (gemm_.outputType == plan::DType::f32)
      return sum(rows, columns, scratch, static_cast<float *>(c_) + at, gemm_.n);
    constexpr int64_t stride = kTileColumns + kLine;
    Bf16 *c = static_cast<Bf16 *>(c_) + at;
    if (gemm_.accumulate)
      widenRows(c, gemm_.n, rows.count, columns.count, scratch.c, stride);
    sum(rows, columns, scratch, scratch.c, stride);
    for (int64_t row = 0; row < rows.count; ++row)
      narrow(scratch.c + row * stride, columns.count, c + row * gemm_.n);
  }

  void sum(GemmPart rows, GemmPart columns, Scratch &scratch, float *c, int64_t strideC) const {
    plan::Gemm part = gemm_;
    part.m = rows.count, part.n = columns.count;
    const int64_t panels = divideUp(gemm_.k, kGemmDepth);
    for (int64_t index = 0; index < panels; ++index) {
      const GemmPart depth = partOf(gemm_.k, kGemmDepthUnit, index, panels);
      const Matrix a = widenPanel(a_, gemm_.transposeA, gemm_.transposeA ? gemm_.m : gemm_.k, rows, depth, scratch.a);
      const Matrix b =
          widenPanel(b_, gemm_.transposeB, gemm_.transposeB ? gemm_.k : gemm_.n, depth, columns, scratch.b);
      part.k = depth.count;
      part.accumulate = gemm_.accumulate || index > 0;
      gemmInDepth(part, a, b, c, strideC);
    }
  }

  const plan::Gemm &gemm_;
  const Bf16 *a_, *b_;
  void *c_;
};

} // namespace

void panelGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads) {
  const Panels panels(gemm, a, b, c);
  const bool byColumns =
      gemm.path == plan::GemmPath::columns || (gemm.path != plan::GemmPath::rows && gemm.n >= gemm.m);
  const int64_t size = byColumns ? gemm.n : gemm.m, unit = byColumns ? kGemmColumnUnit : kGemmRowUnit;
  const int64_t parts = std::clamp<int64_t>(size / unit, 1, threads);
  parallelFor(threads, parts, parts, [&](int64_t index, int64_t) {
    const GemmPart part = partOf(size, unit, index, parts);
    panels.run(byColumns ? GemmPart{0, gemm.m} : part, byColumns ? part : GemmPart{0, gemm.n});
  });
}

static std::atomic<Bf16Product> &product() {
  static std::atomic product = multipliesBf16() ? Bf16Product::native : Bf16Product::panels;
  return product;
}
void setBf16Product(Bf16Product chosen) { product() = chosen; }
Bf16Product bf16Product() { return product(); }

void bf16Gemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads) {
  if (gemm.m <= 0 || gemm.n <= 0)
    return;
  if (gemm.k <= 0) {
    if (!gemm.accumulate) // zero is zero bytes in both types
      std::memset(c, 0, size_t(gemm.m * gemm.n * sizeInBytes(gemm.outputType)));
    return;
  }
  if (bf16Product() == Bf16Product::panels || !nativeGemm(gemm, a, b, c, threads))
    panelGemm(gemm, a, b, c, threads);
}

} // namespace mgc
