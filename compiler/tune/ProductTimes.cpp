// See ProductTimes.h.
#include "compiler/tune/ProductTimes.h"
#include "runtime/base/Rounding.h"

#include "plan/Plan.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/kernels/GemmPaths.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace mgc::tune {

namespace {

constexpr double kLeastGain = 0.01;
constexpr double kSeconds = 0.4; // time per matrix product, when that is enough for kLeastRounds
constexpr int kLeastRounds = 6;
constexpr double kMostFlops = 5e9;
constexpr int64_t kElements = 32 << 20; // 128 MiB: several sets of operands, so that none is in the cache

// Where A, B and C lie behind one another, and where the next set does.
struct Operands {
  explicit Operands(const plan::Gemm &gemm)
      : b(padded(gemm.m, gemm.k)), c(b + padded(gemm.k, gemm.n)), end(c + padded(gemm.m, gemm.n)) {}
  static int64_t padded(int64_t rows, int64_t columns) { // to whole lines
    constexpr int64_t line = plan::kAlignment / sizeof(float);
    return roundUp(rows * columns, line);
  }
  int64_t b, c, end;
};

plan::Gemm sampleOf(plan::Gemm gemm) {
  while (gemm.work({}).flops > kMostFlops || Operands(gemm).end > kElements) {
    int64_t *longest = std::max({&gemm.m, &gemm.n, &gemm.k}, [](auto *a, auto *b) { return *a < *b; });
    *longest = (*longest + 1) / 2;
  }
  return gemm;
}

double secondsOf(const GemmPathRow &row, const plan::Gemm &gemm, float *set, int threads) {
  const Operands at(gemm);
  const auto begin = std::chrono::steady_clock::now();
  row.run(gemm, {set, gemm.transposeA ? gemm.m : gemm.k}, {set + at.b, gemm.transposeB ? gemm.k : gemm.n}, set + at.c,
          threads);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<const GemmPathRow *> pathsOf(const plan::Gemm &gemm, int threads) {
  std::vector<const GemmPathRow *> paths;
  for (const GemmPathRow &row : gemmPaths())
    if (row.applies(gemm, threads))
      paths.push_back(&row);
  return paths;
}

} // namespace

plan::GemmPath fastest(std::span<const PathTimes> times, plan::GemmPath byRule) {
  const auto worse = [](const PathTimes &one) { return std::max(one.best[0], one.best[1]); };
  const PathTimes &candidate = *std::ranges::min_element(times, {}, worse);
  const auto rule = std::ranges::find(times, byRule, &PathTimes::path);
  const bool wins = worse(candidate) < (1 - kLeastGain) * std::min(rule->best[0], rule->best[1]);
  return wins ? candidate.path : byRule;
}

Result<ProductTimer> ProductTimer::create(int threads) {
  plugin::PluginDevice device = openCpuDevice();
  MGC_ASSIGN(memory, device.allocate(kElements * int64_t(sizeof(float))));
  return ProductTimer(std::move(device), std::move(memory), threads);
}

std::vector<PathTimes> ProductTimer::measure(const plan::Gemm &gemm) {
  const plan::Gemm sample = sampleOf(gemm);
  auto *data = reinterpret_cast<float *>(memory_.address());
  for (int64_t i = 0; i < kElements; ++i) // the results of an earlier product may be infinite
    data[i] = static_cast<float>(i % 17 - 8) / 64;
  const std::vector<const GemmPathRow *> paths = pathsOf(gemm, threads_); // the rule's is one of them
  const int64_t setElements = Operands(sample).end, sets = kElements / setElements;
  int64_t calls = 0;
  const auto time = [&](const GemmPathRow &row) {
    return secondsOf(row, sample, data + calls++ % sets * setElements, threads_);
  };
  std::vector<PathTimes> times;
  for (const GemmPathRow *row : paths) {
    time(*row); // warms up
    times.push_back({row->path, {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()}});
  }
  double spent = 0;
  for (int round = 0; round < kLeastRounds || spent < kSeconds; ++round)
    for (size_t i = 0; i < paths.size(); ++i) {
      const double seconds = time(*paths[i]);
      double &best = times[i].best[round % 2];
      best = std::min(best, seconds);
      spent += seconds;
    }
  return times;
}

} // namespace mgc::tune
