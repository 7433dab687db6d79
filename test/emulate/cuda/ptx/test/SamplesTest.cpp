// PTX that nvcc and LLVM make of small sources (samples/) against the same in C++.
#include "test/Places.h"
#include "test/emulate/cuda/ptx/Numbers.h"
#include "test/emulate/cuda/ptx/test/Harness.h"

#include <fstream>
#include <random>
#include <sstream>

namespace mgc::ptx {
namespace {

class Sample : public testing::Test {
protected:
  void load(const std::string &name) {
    std::ifstream file(testFile("emulate/cuda/ptx/test/samples/") + name);
    std::stringstream text;
    text << file.rdbuf();
    auto loaded = Module::load(text.str(), space);
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    module = loaded.take();
  }

  template <typename T> void *give(std::vector<T> &values) {
    space.add(values.data(), values.size() * sizeof(T));
    return values.data();
  }

  template <typename... Values> void launch(const std::string &kernel, Launch launch, Values... values) {
    void *pointers[] = {&values...};
    const std::vector<std::byte> packed = packParameters(*module->kernel(kernel), pointers);
    launch.parameters = packed;
    auto done = module->launch(kernel, launch);
    ASSERT_TRUE(done.isOk()) << done.status().message();
  }

  std::vector<float> normal(size_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> distribution(0, 3);
    std::vector<float> values(count);
    for (float &value : values)
      value = distribution(random);
    return values;
  }

  AddressSpace space;
  std::unique_ptr<Module> module;
};

std::vector<BFloat> narrowed(const std::vector<float> &values) {
  std::vector<BFloat> result;
  for (float value : values)
    result.emplace_back(value);
  return result;
}

TEST_F(Sample, NvccNormalizesRows) {
  load("Nvcc.ptx");
  constexpr int64_t kRows = 6, kColumns = 300;
  std::vector<BFloat> x = narrowed(normal(kRows * kColumns)), y(x.size());
  launch("normalize", {.grid = {kRows}, .block = {128}, .sharedBytes = kColumns * 4, .workers = 2}, give(x), give(y),
         kColumns);
  for (int64_t row = 0; row < kRows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < kColumns; ++i)
      squares += double(x[row * kColumns + i]) * x[row * kColumns + i];
    for (int64_t i = 0; i < kColumns; ++i) {
      const double expected = x[row * kColumns + i] / std::sqrt(squares / kColumns + row % 4 * 0.25);
      ASSERT_NEAR(y[row * kColumns + i], expected, std::fabs(expected) / 256) << row << ", " << i;
    }
  }
  uint32_t counted = 0;
  std::memcpy(&counted, module->global("counter")->host, 4);
  EXPECT_EQ(counted, kRows);
}

// Within a few units of the last place of the largest part of a sum, as the library promises.
void expectNear(double found, double expected, double size, const char *what, float x) {
  EXPECT_NEAR(found, expected, 4e-7 * size + 1e-37) << what << " of " << x;
}

TEST_F(Sample, NvccFunctions) {
  load("Nvcc.ptx");
  constexpr int kCount = 1000;
  const float power = 2.5f;
  std::vector<float> x = normal(4 * kCount), y(x.size());
  for (size_t i = 2; i < x.size(); i += 64)
    x[i] *= 1e6f; // where sines reduce their argument by many digits
  launch("functions", {.grid = {8}, .block = {128}}, give(x), give(y), power, kCount);
  for (size_t i = 0; i < x.size(); i += 4) {
    const double a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    expectNear(y[i], std::tanh(a) + std::exp(a), 1 + std::exp(a), "tanh + exp", x[i]);
    expectNear(y[i + 1], std::log(std::fabs(b) + 1) + std::erf(b), 3, "log + erf", x[i + 1]);
    expectNear(y[i + 2], std::sin(c) + std::cos(c), 1, "sin + cos", x[i + 2]);
    expectNear(y[i + 3], std::pow(std::fabs(d), power), std::pow(std::fabs(d), power), "pow", x[i + 3]);
  }
}

TEST_F(Sample, NvccCalls) {
  load("Nvcc.ptx");
  struct Numbers {
    int factor = 3;
    float terms[5] = {0.1f, 0.2f, 0.3f, 0.4f, -0.5f};
    int64_t offset = 10;
  } numbers;
  std::vector<int> times;
  std::vector<float> y(50);
  for (int i = 0; i < 50; ++i)
    times.push_back(i * 13 % 21);
  launch("calls", {.block = {50}}, numbers, give(times), give(y));
  for (int i = 0; i < 50; ++i) {
    float value = numbers.terms[i % 5], local = i % 16 * 0.01f;
    for (int k = 0; k < times[i]; ++k)
      value = std::fma(value, value, 0.25f);
    for (int k = 0; k < times[i]; ++k)
      local += k * 7 % 16 == i % 16;
    EXPECT_NEAR(y[i], value * 3 + 10 + local, 1e-5) << i;
  }
}

TEST_F(Sample, NvccIntegers) {
  load("Nvcc.ptx");
  std::mt19937_64 random(2);
  std::vector<int> a;
  std::vector<uint32_t> b(64);
  std::vector<int64_t> c, before;
  for (int i = 0; i < 64; ++i) {
    a.push_back(static_cast<int>(random()) | 1);
    c.push_back(static_cast<int64_t>(random()) >> i % 60);
  }
  before = c;
  launch("integers", {.block = {64}}, give(a), give(b), give(c));
  for (int64_t i = 0; i < 64; ++i) {
    uint32_t reversed = 0, bits = a[i];
    for (int bit = 0; bit < 32; ++bit)
      reversed |= (bits >> bit & 1) << (31 - bit);
    const uint32_t bytes[] = {bits & 0xFF, bits >> 8 & 0xFF, bits >> 16 & 0xFF, bits >> 24, static_cast<uint32_t>(i)};
    const uint32_t permuted = bytes[4] | bytes[3] << 8 | bytes[2] << 16 | bytes[1] << 24;
    const uint32_t sum = std::popcount(bits) + std::countl_zero(bits) + reversed + std::countr_zero(bits) + 1 +
                         permuted + a[i] / 7 + a[i] % 13 + static_cast<uint32_t>(uint64_t(bits) * i >> 32);
    EXPECT_EQ(b[i], sum) << i;
    int64_t value = before[i] / (i + 1) + before[i] % 1000003 + std::popcount(static_cast<uint64_t>(before[i]));
    const int64_t chosen[] = {value + 1, value + b[i], value * 3, value ^ 5, 7, value | 8};
    EXPECT_EQ(c[i], chosen[i % 6]) << i;
  }
}

TEST_F(Sample, LlvmSumsByATree) {
  load("Llvm.ptx");
  std::vector<BFloat> x = narrowed(normal(777)), y(256);
  std::vector<float> weights(256);
  launch("row", {.block = {256}}, give(x), give(y), give(weights), int64_t(777));
  std::vector<float> parts(256);
  for (size_t i = 0; i < x.size(); ++i)
    parts[i % 256] = std::fma(float(x[i]), float(x[i]), parts[i % 256]);
  for (size_t half = 128; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      parts[i] += parts[i + half];
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(y[i].bits, BFloat(parts[0]).bits);
    EXPECT_EQ(weights[i], std::ldexp(1.0f, -static_cast<int>(i % 4)));
  }
  uint64_t needs[3];
  ASSERT_EQ(module->global("row_needs")->size, sizeof needs);
  std::memcpy(needs, module->global("row_needs")->host, sizeof needs);
  EXPECT_EQ(needs[0], 4096u);
  EXPECT_EQ(needs[2], 12u);
  EXPECT_EQ(module->target(), 80);
}

TEST_F(Sample, LlvmVectors) {
  load("Llvm.ptx");
  std::vector<BFloat> x = narrowed(normal(256)), y(256);
  launch("vectors", {.block = {32}}, give(x), give(y));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y[i].bits, BFloat(x[i] * (i % 2 ? 3.0f : 0.5f)).bits) << i;
}

TEST_F(Sample, LlvmScalars) {
  load("Llvm.ptx");
  std::vector<float> x = normal(96), y(96);
  launch("scalars", {.block = {96}}, give(x), give(y), int64_t(-7));
  for (int i = 0; i < 96; ++i) {
    const float scaled = x[i] * 1.44269502f, whole = std::nearbyint(scaled);
    const float value =
        std::fma(scaled - whole, std::bit_cast<float>(0x3F317218u), 1.0f) * std::ldexp(1.0f, static_cast<int>(whole));
    const float expected = std::copysign(x[i] < 0 ? value : std::sqrt(x[i]), x[i]) + float(i / -7 + i % -7);
    EXPECT_EQ(y[i], expected) << x[i];
  }
}

} // namespace
} // namespace mgc::ptx
