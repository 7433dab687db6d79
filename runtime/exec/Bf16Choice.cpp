// See Bf16Choice.h.
#include "runtime/exec/Bf16Choice.h"

#include "runtime/base/Cores.h"
#include "runtime/io/ChoiceCache.h"
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/GemmNative.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

namespace mgc {

namespace {

constexpr std::pair<Bf16Product, std::string_view> kNames[] = {{Bf16Product::panels, "panels"},
                                                               {Bf16Product::native, "native"}};

// A forward matrix product, and one of a weight's gradient.
const plan::Gemm kMeasured[] = {
    {.m = 512, .n = 1024, .k = 1024, .inputType = plan::DType::bf16, .outputType = plan::DType::bf16},
    {.m = 1024, .n = 1024, .k = 512, .transposeA = true, .accumulate = true, .inputType = plan::DType::bf16}};
constexpr int64_t kOperand = 1024 * 1024;
constexpr int kRounds = 4; // the first is a warm-up
constexpr double kClearly = 0.8;

Status checkChoice(const nlohmann::json &value) {
  return value.is_string() && bf16ProductNamed(value.get_ref<const std::string &>())
             ? Status::ok()
             : errorf("found {}, expected \"panels\" or \"native\"", printable(value.dump()));
}

ChoiceCache cacheAt(const std::string &path) {
  return {
      {"mgc bf16 products", "1", "a cache of how bf16 is multiplied", nlohmann::json::object(), nullptr, checkChoice},
      path};
}

std::string describe(Bf16Product product, const std::string &why) {
  return fmt::format("products of bf16 by {}: {}",
                     product == Bf16Product::native ? "the processor's own" : "panels of f32", why);
}

std::string describe(const Bf16Times &times, const std::string &kept) {
  return fmt::format("{:.1f} ms by panels, {:.1f} ms by the processor's own{}", times.panels * 1000,
                     times.native * 1000, kept);
}

} // namespace

std::string_view nameOf(Bf16Product product) {
  return std::ranges::find(kNames, product, [](const auto &row) { return row.first; })->second;
}

std::optional<Bf16Product> bf16ProductNamed(std::string_view name) {
  const auto *found = std::ranges::find(kNames, name, [](const auto &row) { return row.second; });
  return found == std::end(kNames) ? std::nullopt : std::optional(found->first);
}

Bf16Times timeBf16Products(int threads) {
  using Product = bool (*)(const plan::Gemm &, const Bf16 *, const Bf16 *, void *, int);
  const std::vector<Bf16> a(kOperand, toBf16(1)), b(kOperand, toBf16(0.5));
  std::vector<float> c(kOperand); // bf16 or f32
  const auto seconds = [&](Product product) {
    const auto start = std::chrono::steady_clock::now();
    for (const plan::Gemm &gemm : kMeasured)
      if (!product(gemm, a.data(), b.data(), c.data(), threads))
        return std::numeric_limits<double>::infinity();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Product panels = [](const plan::Gemm &gemm, const Bf16 *x, const Bf16 *y, void *to, int count) {
    panelGemm(gemm, x, y, to, count);
    return true;
  };
  Bf16Times best = {seconds(panels), seconds(nativeGemm)};
  for (int round = 1; round < kRounds; ++round)
    best = {std::min(best.panels, seconds(panels)), std::min(best.native, seconds(nativeGemm))};
  return best;
}

Bf16Product fasterOf(const Bf16Times &times) {
  return times.native < kClearly * times.panels ? Bf16Product::native : Bf16Product::panels;
}

Result<Bf16Choice> chooseBf16Product(const Bf16Options &options, int threads, bool isNative, const Bf16Timer &measure) {
  if (options.product == Bf16Product::native && !isNative)
    return errorf("--bf16-products native: this processor has neither AVX512-BF16 nor AMX, or the system or "
                  "ONEDNN_MAX_CPU_ISA keeps oneDNN from them; possible: panels, auto");
  if (options.product)
    return Bf16Choice{*options.product, isNative ? describe(*options.product, "as asked for") : ""};
  if (!isNative)
    return Bf16Choice{};
  std::vector<std::string> notes;
  ChoiceCache cache = cacheAt(options.cache);
  const std::string key = fmt::format("{}, {}, {} threads", processorName(), gemmLibrary(), threads);
  const Status loaded = cache.load(notes);
  if (const std::optional<nlohmann::json> known = loaded.isOk() ? cache.find(key) : std::nullopt) {
    const Bf16Product product = *bf16ProductNamed(known->get_ref<const std::string &>());
    return Bf16Choice{product, describe(product, fmt::format("as measured before ({})", cache.path()))};
  }
  const Bf16Times times = measure(threads);
  const Bf16Product product = fasterOf(times);
  cache.add(key, nameOf(product));
  const Status saved = loaded.isOk() ? cache.save() : loaded;
  const std::string kept = saved.isOk() ? (cache.path().empty() ? "" : fmt::format(", kept in {}", cache.path()))
                                        : fmt::format("; not kept: {}", saved.message());
  return Bf16Choice{product, describe(product, describe(times, kept))};
}

} // namespace mgc
