// See GemmPaths.h.
#include "runtime/kernels/GemmPaths.h"

#include "runtime/kernels/Parallel.h"

#include <algorithm>

namespace mgc {

namespace {

// Parts begin at multiples of these: columns at a cache line, rows and k where the library's own blocks may.
constexpr int64_t kRowUnit = 8, kColumnUnit = 16, kDepthUnit = 8;
// Of k in one call: with so few rows of B packed, what a thread works on stays in its second-level cache.
constexpr int64_t kDepth = 256;

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
  return gemm.n >= threads * kColumnUnit && (threads > 1 || gemm.k > kDepth);
}

void runWhole(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  setLibraryThreads(threads);
  stridedGemm(gemm, a, b, c, gemm.n);
}

// One call after another for parts of k, each added to the ones before.
void runInDepth(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC) {
  const int64_t parts = (gemm.k + kDepth - 1) / kDepth;
  for (int64_t index = 0; index < parts; ++index) {
    const auto [begin, count] = partOf(gemm.k, kDepthUnit, index, parts);
    plan::Gemm part = gemm;
    part.k = count;
    part.accumulate |= index > 0;
    stridedGemm(part, {a.data + begin * (gemm.transposeA ? a.stride : 1), a.stride},
                {b.data + begin * (gemm.transposeB ? 1 : b.stride), b.stride}, c, strideC);
  }
}

void runRows(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.m, kRowUnit, index, threads);
    plan::Gemm part = gemm;
    part.m = count;
    runInDepth(part, {a.data + begin * (gemm.transposeA ? 1 : a.stride), a.stride}, b, c + begin * gemm.n,
               gemm.n);
  });
}

void runColumns(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads) {
  parallelFor(threads, threads, threads, [&](int64_t index, int64_t) {
    const auto [begin, count] = partOf(gemm.n, kColumnUnit, index, threads);
    plan::Gemm part = gemm;
    part.n = count;
    runInDepth(part, a, {b.data + begin * (gemm.transposeB ? b.stride : 1), b.stride}, c + begin, gemm.n);
  });
}

constexpr GemmPathRow kPaths[] = {
    {plan::GemmPath::whole, always, runWhole}, // one call, divided by the library
    {plan::GemmPath::rows, hasRows,
     runRows}, // a thread computes an equal part of C's rows, in calls of few k
    {plan::GemmPath::columns, hasColumns, runColumns}, // the same of its columns
};

const GemmPathRow &rowOf(plan::GemmPath path) { return *std::ranges::find(kPaths, path, &GemmPathRow::path); }

} // namespace

std::span<const GemmPathRow> gemmPaths() { return kPaths; }

// What measurements say (docs/performance.md): parts of the longer side are as fast as one call, or up to 6 % faster,
// while they are long. What oneDNN does not pack is slow with a transposed A: at 1 / m + 1 / n = 1 / 256 by a fifth, at
// 1 / 341 not at all.
const GemmPathRow &gemmRule(const plan::Gemm &gemm, int threads) {
  constexpr int64_t longPart = 512, packedPart = 300;
  const bool isWide = gemm.n >= gemm.m;
  plan::Gemm part = gemm;
  int64_t &longer = isWide ? part.n : part.m;
  longer /= threads;
  const bool isPacked = part.m * part.n >= packedPart * (part.m + part.n);
  const GemmPathRow &row = rowOf(isWide ? plan::GemmPath::columns : plan::GemmPath::rows);
  const bool isDivided = longer >= longPart && (isPacked || !gemm.transposeA) && row.applies(gemm, threads);
  return isDivided ? row : kPaths[0];
}

const GemmPathRow &gemmPathOf(const plan::Gemm &gemm, int threads) {
  if (gemm.path == plan::GemmPath::rule)
    return gemmRule(gemm, threads);
  const GemmPathRow &named = rowOf(gemm.path);
  return named.applies(gemm, threads) ? named : kPaths[0];
}

} // namespace mgc
