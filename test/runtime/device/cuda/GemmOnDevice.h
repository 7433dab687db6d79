// Products on the device, with what they were given read back.
#pragma once

#include "CudaTest.h"

#include "runtime/random/Philox.h"

#include <cmath>
#include <random>

namespace mgc::test {

using Values = std::vector<float>;

struct Operands {
  Values a, b, c, bias; // the last only with its epilogue
};

inline Values randomValues(int64_t count, uint64_t seed) {
  Values values(count);
  normalRange(seed, 0, 0, count, 1, values.data());
  return values;
}

inline Values smallIntegers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(count);
  for (float &value : values)
    value = float(int64_t(random() % 7) - 3);
  return values;
}

inline Operands operandsOf(const mgc_gemm_facts &f, Values (*make)(int64_t, uint64_t)) {
  return {make(f.m * f.k, 1), make(f.k * f.n, 2), make(f.m * f.n, 3), make(f.n, 4)};
}

inline std::string describe(const mgc_gemm_facts &f) {
  return fmt::format("m={} n={} k={} transposed {}{} accumulate {} types {} {} epilogue {}", f.m, f.n, f.k,
                     f.transpose_a, f.transpose_b, f.accumulate, int(f.input), int(f.output), int(f.epilogue));
}

// Half a unit of the type's last place.
inline double roundingOf(mgc_type type, double value) { return type == MGC_BF16 ? std::ldexp(std::abs(value), -8) : 0; }

class GemmOnDevice : public CudaTest {
protected:
  plugin::DeviceBuffer uploadedAs(mgc_type type, Values &values) {
    if (values.empty())
      return must(device().allocate(1));
    if (type == MGC_F32)
      return uploaded(values);
    std::vector<uint16_t> narrow(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      narrow[i] = bf16Of(values[i]);
      values[i] = floatOf(narrow[i]); // the operand is what the device has
    }
    return uploaded(narrow);
  }
  Values downloadAs(mgc_type type, mgc_address from, int64_t count) {
    if (count == 0)
      return {};
    if (type == MGC_F32)
      return download<float>(from, count);
    Values values;
    for (const uint16_t narrow : download<uint16_t>(from, count))
      values.push_back(floatOf(narrow));
    return values;
  }
  // Operands are rounded to what the device has.
  Values run(const mgc_gemm_facts &facts, Operands &operands) {
    const auto a = uploadedAs(facts.input, operands.a), b = uploadedAs(facts.input, operands.b);
    const auto c = uploadedAs(facts.output, operands.c), bias = uploadedAs(facts.output, operands.bias);
    const auto workspace = must(device().allocate(std::max<int64_t>(facts.workspace_bytes, 1)));
    const auto gemm = must(device().makeGemm(facts));
    EXPECT_EQ(errorOf(stream.gemm(gemm, {.a = a.address(),
                                         .b = b.address(),
                                         .bias = facts.epilogue ? bias.address() : 0,
                                         .c = c.address(),
                                         .workspace = facts.workspace_bytes ? workspace.address() : 0})),
              "");
    EXPECT_EQ(errorOf(stream.synchronize(std::chrono::seconds(60))), "");
    return downloadAs(facts.output, c.address(), facts.m * facts.n);
  }
};

} // namespace mgc::test
