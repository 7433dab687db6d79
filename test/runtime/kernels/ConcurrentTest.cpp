// Ranks are threads of one process and call the same kernels at the same time: each must get, to the bit, what it gets alone.
#include "runtime/kernels/GemmBf16.h"
#include "runtime/kernels/GemmNative.h"
#include "runtime/kernels/GemmPaths.h"
#include "runtime/kernels/Move.h"
#include "test/runtime/kernels/AttentionReference.h"

#include <barrier>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace mgc;
using namespace mgc::test;

namespace {

constexpr int64_t kCallers = 4, kRounds = 8;

using Bytes = std::vector<std::byte>;
template <typename T> Bytes bytesOf(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// `work(caller)` gives all that the kernel writes for the operands of that caller.
void expectSameBitsAtOnce(const std::string &what, const std::function<Bytes(int64_t caller)> &work) {
  std::vector<Bytes> alone;
  for (int64_t caller = 0; caller < kCallers; ++caller)
    alone.push_back(work(caller));
  std::vector<int64_t> wrong(kCallers);
  std::barrier start(kCallers);
  std::vector<std::thread> threads;
  for (int64_t caller = 0; caller < kCallers; ++caller)
    threads.emplace_back([&, caller] {
      for (int64_t round = 0; round < kRounds; ++round) {
        start.arrive_and_wait();
        wrong[caller] += work(caller) != alone[caller];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int64_t caller = 0; caller < kCallers; ++caller)
    EXPECT_EQ(wrong[caller], 0) << what << ": calls of caller " << caller << " of " << kRounds
                                << " that differ from the same call alone";
}

// Two sizes, so that callers meet in the same product and in different ones.
std::vector<plan::Gemm> products() {
  std::vector<plan::Gemm> all;
  for (const auto &[m, n, k] : {std::tuple(72, 80, 300), std::tuple(33, 161, 64)})
    std::ranges::copy(formsOf(m, n, k), std::back_inserter(all));
  return all;
}

using Product = void (*)(const plan::Gemm &, const Bf16 *, const Bf16 *, void *, int threads);

void expectSameProductsOfBf16(const char *what, Product product) {
  for (plan::Gemm gemm : products())
    for (plan::DType output : {plan::DType::f32, plan::DType::bf16})
      for (int threads : {1, 2}) {
        gemm.inputType = plan::DType::bf16, gemm.outputType = output;
        expectSameBitsAtOnce(fmt::format("{}, {}, {} threads", what, gemm.sizes(), threads), [&](int64_t caller) {
          const std::vector<Bf16> a = randomBf16(gemm.m * gemm.k, 2 * caller),
                                  b = randomBf16(gemm.k * gemm.n, 2 * caller + 1);
          Bytes c(gemm.m * gemm.n * sizeInBytes(output));
          product(gemm, a.data(), b.data(), c.data(), threads);
          return c;
        });
      }
}

} // namespace

TEST(Concurrent, productsOfF32) {
  for (plan::Gemm gemm : products())
    for (const GemmPathRow &row : gemmPaths())
      for (int threads : {1, 2}) {
        gemm.path = row.path;
        expectSameBitsAtOnce(fmt::format("{} by {}, {} threads", gemm.sizes(), nameOf(gemm.path), threads),
                             [&](int64_t caller) {
                               const std::vector<float> a = randomFloats(gemm.m * gemm.k, 2 * caller),
                                                        b = randomFloats(gemm.k * gemm.n, 2 * caller + 1);
                               std::vector<float> c(gemm.m * gemm.n);
                               mgc::gemm(gemm, a.data(), b.data(), c.data(), threads);
                               return bytesOf(c);
                             });
      }
}

TEST(Concurrent, panelsOfBf16) { expectSameProductsOfBf16("panels", panelGemm); }

TEST(Concurrent, nativeProductsOfBf16) {
  const plan::Gemm one = {.m = 8, .n = 8, .k = 8, .inputType = plan::DType::bf16};
  const std::vector<Bf16> zeros(64);
  std::vector<float> c(64);
  if (!nativeGemm(one, zeros.data(), zeros.data(), c.data(), 1))
    GTEST_SKIP() << "oneDNN makes no product of bf16 on this processor";
  expectSameProductsOfBf16("native", [](const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *to, int threads) {
    EXPECT_TRUE(nativeGemm(gemm, a, b, to, threads));
  });
}

TEST(Concurrent, attention) {
  for (const AttentionKernels *kernels : attentionKernels())
    for (double dropout : {0.0, 0.25})
      for (int threads : {1, 2})
        expectSameBitsAtOnce(fmt::format("dropout {}, {} threads", dropout, threads), [&](int64_t caller) {
          AttentionProblem problem({.s = 70, .t = 70, .b = 2, .g = 2, .r = 2, .d = 16, .dropout = dropout});
          problem.kernels = kernels;
          problem.a.seed.value = caller;
          problem.q = randomFloats(int64_t(problem.q.size()), caller);
          problem.run(threads);
          Bytes all;
          for (const auto &[name, part] : problem.results()) {
            const Bytes bytes = bytesOf(*part);
            all.insert(all.end(), bytes.begin(), bytes.end());
          }
          return all;
        });
}

TEST(Concurrent, moves) {
  for (int threads : {1, 2})
    expectSameBitsAtOnce(fmt::format("{} threads", threads), [&](int64_t caller) {
      const Bytes from = bytesOf(randomFloats(40'000, caller));
      Bytes to(100 * 1'200 + 4'096, std::byte{1});
      copyRows(threads, to.data(), from.data(), {100, 1'200, 1'600});
      fillZero(threads, to.data() + 100 * 1'200, 4'000);
      return to;
    });
}
