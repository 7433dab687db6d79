#include "runtime/exec/MachineRates.h"

#include "runtime/base/Cores.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace mgc {

namespace {

constexpr int64_t kArrayElements = 16 << 20; // for all ranks together: three arrays of 64 MiB, beyond caches
constexpr int kProductRounds = 3, kMemoryRounds = 5;
constexpr plan::Gemm kProducts[] = {{1024, 3072, 768}, {1024, 768, 3072}, {1536, 1536, 1536}};

// Elements of one array of one rank: its part of the memory, and no less than any operand of the matrix products.
constexpr int64_t elementsOf(int64_t ranks) {
  int64_t elements = kArrayElements / ranks;
  for (const plan::Gemm &product : kProducts)
    elements = std::max({elements, product.m * product.k, product.k * product.n, product.m * product.n});
  return elements;
}

std::vector<int64_t> ranksOf(const Engine &engine) {
  std::vector<int64_t> ranks;
  for (size_t rank = 0; rank < engine.arenas().size(); ++rank)
    if (engine.arenas()[rank])
      ranks.push_back(int64_t(rank));
  return ranks;
}

class RateMeter {
public:
  explicit RateMeter(Engine &engine)
      : engine_(engine), threads_(engine.threadsPerRank()), here_(ranksOf(engine)),
        ranks_(std::clamp<int64_t>(int64_t(availableCores().size()) / threads_, 1, int64_t(here_.size()))),
        elements_(elementsOf(ranks_)), arrays_(ranks_) {}
  MachineRates measure();

private:
  double flopsOf(plan::DType inputType);
  struct Arrays {
    std::vector<float> a, b, c;
  };
  // Seconds until all ranks have done body(arrays).
  template <typename Body> double time(const Body &body);
  template <typename Body> double bestOf(int rounds, const Body &body);
  template <typename Body> void inParts(const Body &body) const; // body(begin, count) of the arrays

  Engine &engine_;
  int threads_;
  std::vector<int64_t> here_; // the ranks of this process
  int64_t ranks_, elements_;  // the first so many of them measure
  std::vector<Arrays> arrays_;
};

template <typename Body> double RateMeter::time(const Body &body) {
  const auto start = std::chrono::steady_clock::now();
  engine_.onRanks([&](int64_t rank) {
    const int64_t place = std::ranges::find(here_, rank) - here_.begin();
    if (place < ranks_)
      body(arrays_[place]);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename Body> double RateMeter::bestOf(int rounds, const Body &body) {
  double best = time(body);
  for (int round = 1; round < rounds; ++round)
    best = std::min(best, time(body));
  return best;
}

template <typename Body> void RateMeter::inParts(const Body &body) const {
  parallelFor(threads_, threads_, threads_, [&](int64_t part, int64_t) {
    const int64_t begin = elements_ * part / threads_;
    body(begin, elements_ * (part + 1) / threads_ - begin);
  });
}

// The bytes of the operands are ones in f32; as bf16 they are ones and zeros.
double RateMeter::flopsOf(plan::DType inputType) {
  double best = 0;
  for (plan::Gemm product : kProducts) {
    product.inputType = inputType;
    const double seconds =
        bestOf(kProductRounds, [&](Arrays &x) { gemm(product, x.a.data(), x.b.data(), x.c.data(), threads_); });
    best = std::max(best, double(ranks_) * 2 * double(product.m * product.n * product.k) / seconds);
  }
  return best;
}

MachineRates RateMeter::measure() {
  for (Arrays &arrays : arrays_)
    for (std::vector<float> *array : {&arrays.a, &arrays.b, &arrays.c})
      array->assign(elements_, 1.0f);
  MachineRates rates;
  rates.flops = flopsOf(plan::DType::f32);
  if (engine_.plan().dtype == plan::DType::bf16)
    rates.bf16Flops = flopsOf(plan::DType::bf16);
  const double arrayBytes = double(ranks_ * elements_) * sizeof(float);
  const double copy = bestOf(kMemoryRounds, [&](Arrays &x) {
    inParts([&](int64_t begin, int64_t count) {
      std::memcpy(x.a.data() + begin, x.b.data() + begin, count * sizeof(float));
    });
  });
  const double triad = bestOf(kMemoryRounds, [&](Arrays &x) {
    inParts([&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i)
        x.a[i] = x.b[i] + 0.5f * x.c[i];
    });
  });
  // Most processors read a line before they write it, even where it is only written; an updated line is not read twice.
  const double update = bestOf(kMemoryRounds, [&](Arrays &x) {
    inParts([&](int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i)
        x.a[i] = 1.0f - x.a[i];
    });
  });
  rates.bytes = std::max({2 * arrayBytes / copy, 3 * arrayBytes / triad, 2 * arrayBytes / update});
  return rates;
}

} // namespace

Result<MachineRates> measureRates(Engine &engine) {
  try {
    return RateMeter(engine).measure();
  } catch (const std::bad_alloc &) {
    return errorf("the machine's rates cannot be measured: no memory for three arrays of {} MiB, or of {} MiB for "
                  "each rank where there are many",
                  kArrayElements * sizeof(float) >> 20, elementsOf(kArrayElements) * sizeof(float) >> 20);
  }
}

} // namespace mgc
