// See CpuGemm.h. oneDNN does the work; what it is not made for (empty and single-element results) is done here.
#include "runtime/kernels/CpuGemm.h"

#include "runtime/kernels/GemmBf16.h"
#include "runtime/kernels/GemmPaths.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <dnnl.h>
#include <fmt/format.h>

namespace mgc {

namespace {

// Summed in double, in eight lanes: losses are dot products with long k.
template <typename T> float dot(const T *a, const T *b, int64_t k) {
  double lanes[8] = {};
  const int64_t whole = k - k % 8;
  for (int64_t p = 0; p < whole; p += 8)
    for (int64_t lane = 0; lane < 8; ++lane)
      lanes[lane] += static_cast<double>(toFloat(a[p + lane])) * toFloat(b[p + lane]);
  for (int64_t p = whole; p < k; ++p)
    lanes[p - whole] += static_cast<double>(toFloat(a[p])) * toFloat(b[p]);
  double sum = 0;
  for (double lane : lanes)
    sum += lane;
  return static_cast<float>(sum);
}

// When oneDNN has no memory for its buffers: slow, but needs none.
void plainGemm(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC) {
  for (int64_t i = 0; i < gemm.m; ++i)
    for (int64_t j = 0; j < gemm.n; ++j) {
      double sum = gemm.accumulate ? c[i * strideC + j] : 0;
      for (int64_t p = 0; p < gemm.k; ++p)
        sum += static_cast<double>(a.data[gemm.transposeA ? p * a.stride + i : i * a.stride + p]) *
               b.data[gemm.transposeB ? j * b.stride + p : p * b.stride + j];
      c[i * strideC + j] = static_cast<float>(sum);
    }
}

} // namespace

void stridedGemm(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC) {
  if (gemm.m <= 0 || gemm.n <= 0)
    return;
  if (gemm.k <= 0) {
    for (int64_t i = 0; i < gemm.m && !gemm.accumulate; ++i)
      std::fill_n(c + i * strideC, gemm.n, 0.0f);
    return;
  }
  const dnnl_status_t status =
      dnnl_sgemm(gemm.transposeA ? 'T' : 'N', gemm.transposeB ? 'T' : 'N', gemm.m, gemm.n, gemm.k, 1.0f, a.data,
                 a.stride, b.data, b.stride, gemm.accumulate ? 1.0f : 0.0f, c, strideC);
  if (status != dnnl_success)
    plainGemm(gemm, a, b, c, strideC);
}

static float dotOf(const plan::Gemm &gemm, const void *a, const void *b) {
  return gemm.inputType == plan::DType::f32 ? dot(static_cast<const float *>(a), static_cast<const float *>(b), gemm.k)
                                            : dot(static_cast<const Bf16 *>(a), static_cast<const Bf16 *>(b), gemm.k);
}

static void oneElement(const plan::Gemm &gemm, const void *a, const void *b, void *c) {
  const float sum = dotOf(gemm, a, b);
  if (gemm.outputType == plan::DType::f32) {
    auto &to = *static_cast<float *>(c);
    to = (gemm.accumulate ? to : 0) + sum;
  } else {
    auto &to = *static_cast<Bf16 *>(c);
    to = toBf16((gemm.accumulate ? toFloat(to) : 0) + sum);
  }
}

// `run` makes the matrix product of two matrices of f32 that are larger than one element.
template <typename Run>
static void gemmBy(const Run &run, const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads) {
  if (gemm.m == 1 && gemm.n == 1 && gemm.k > 0)
    return oneElement(gemm, a, b, c);
  if (gemm.inputType == plan::DType::bf16)
    return bf16Gemm(gemm, static_cast<const Bf16 *>(a), static_cast<const Bf16 *>(b), c, threads);
  run(Matrix{static_cast<const float *>(a), gemm.transposeA ? gemm.m : gemm.k},
      Matrix{static_cast<const float *>(b), gemm.transposeB ? gemm.k : gemm.n}, static_cast<float *>(c));
}

void gemm(const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads) {
  const auto byPath = [&](Matrix left, Matrix right, float *result) {
    gemmPathOf(gemm, threads).run(gemm, left, right, result, threads);
  };
  gemmBy(byPath, gemm, a, b, c, threads);
}

void gemmOfVaryingSizes(const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads) {
  const auto byOneCall = [&](Matrix left, Matrix right, float *result) {
    setLibraryThreads(threads);
    stridedGemm(gemm, left, right, result, gemm.n);
  };
  gemmBy(byOneCall, gemm, a, b, c, threads);
}

std::string gemmLibrary() {
  const dnnl_version_t &version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

} // namespace mgc
