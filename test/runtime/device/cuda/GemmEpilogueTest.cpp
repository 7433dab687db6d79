// Products with an epilogue against sums in double, within what f32 sums, rounded as docs/plan-format.md says, can be off; and
// what is refused.
#include "GemmOnDevice.h"

#include <cmath>

using namespace mgc;
using namespace mgc::test;

namespace {

class GemmEpilogue : public GemmOnDevice {};

std::vector<mgc_gemm_facts> allFacts() {
  std::vector<mgc_gemm_facts> all;
  const int64_t shapes[][3] = {{1, 8, 1}, {7, 24, 40}, {33, 72, 129}, {16, 16, 16}, {128, 64, 256}, {13, 200, 3}};
  for (auto [m, n, k] : shapes)
    for (int bits = 0; bits < 4; ++bits)
      for (const auto &[input, output] : {std::pair{MGC_F32, MGC_F32}, {MGC_BF16, MGC_F32}, {MGC_BF16, MGC_BF16}}) {
        const int64_t workspace = (m + n) % 2 ? 0 : 1 << 18;
        all.push_back({m, n + bits, k, bits & 1, bits >> 1, 0, input, output, workspace, 256, 0, MGC_BIAS});
      }
  return all;
}

// A sum with its bias, and what it may be off by before it is rounded: (k + 1) 2^-24 sum |a b| of its terms, the bias among
// them, and half a unit of the product's type.
struct Sum {
  double value, bound;
};
Sum sumOf(const mgc_gemm_facts &f, const Operands &operands, int64_t i, int64_t j) {
  double sum = operands.bias[j], magnitude = std::abs(sum);
  for (int64_t p = 0; p < f.k; ++p) {
    const double term = double(operands.a[f.transpose_a ? p * f.m + i : i * f.k + p]) *
                        operands.b[f.transpose_b ? j * f.k + p : p * f.n + j];
    sum += term;
    magnitude += std::abs(term);
  }
  const double ofSum = double(f.k + 2) * std::ldexp(magnitude, -24);
  return {sum, ofSum + roundingOf(f.output, std::abs(sum - operands.bias[j]) + ofSum)};
}

TEST_F(GemmEpilogue, biasIsAddedToEachRow) {
  for (const mgc_gemm_facts &facts : allFacts()) {
    Operands operands = operandsOf(facts, randomValues);
    const Values seen = run(facts, operands);
    for (int64_t i = 0; i < facts.m; ++i)
      for (int64_t j = 0; j < facts.n; ++j) {
        const auto [sum, bound] = sumOf(facts, operands, i, j);
        ASSERT_NEAR(seen[i * facts.n + j], sum, bound + roundingOf(facts.output, std::abs(sum) + bound))
            << describe(facts) << " at " << i << "," << j;
      }
  }
}

TEST_F(GemmEpilogue, everyAlgorithmComputesIt) {
  mgc_gemm_facts facts{96, 80, 512, 0, 1, 0, MGC_BF16, MGC_F32, 1 << 20, 256, 0, MGC_BIAS};
  Operands operands = operandsOf(facts, smallIntegers);
  const Values expected = run(facts, operands);
  for (facts.algorithm = 1; device().makeGemm(facts).isOk(); ++facts.algorithm)
    EXPECT_EQ(run(facts, operands), expected) << facts.algorithm << ": integers are exact";
  EXPECT_GT(facts.algorithm, 1);
}

TEST_F(GemmEpilogue, isChosenWithAllItsOperands) {
  mgc_gemm_facts facts{96, 80, 512, 1, 0, 0, MGC_BF16, MGC_BF16, 1 << 20, 256, 0, MGC_BIAS};
  Operands operands = operandsOf(facts, smallIntegers);
  const Values expected = run(facts, operands);
  const int64_t needed = must(device().roomToChooseGemm(stream, facts));
  EXPECT_EQ(needed, 2 * 96 * 512 + 2 * 80 * 512 + 256 + 2 * 96 * 80 + (1 << 20)) << "a bias has 160 bytes";
  const auto room = must(device().allocate(needed));
  ASSERT_EQ(errorOf(stream.fill(room.address(), 0, needed)), "");
  facts.algorithm = must(device().chooseGemm(stream, facts, room.address()));
  EXPECT_EQ(run(facts, operands), expected);
}

// The library chose for operands that may lie at any element.
TEST_F(GemmEpilogue, operandsThatAreHardlyAligned) {
  const mgc_gemm_facts facts{16, 24, 32, 0, 0, 0, MGC_F32, MGC_F32, 0, 4, 0, MGC_BIAS};
  Operands operands = operandsOf(facts, smallIntegers);
  const Values expected = run(facts, operands);
  const auto arena = must(device().allocate(1 << 20));
  std::vector<mgc_address> at;
  const auto place = [&](const Values &values) {
    at.push_back(arena.address() + (at.size() << 14) + 4 * (2 * at.size() + 1));
    upload(at.back(), values);
  };
  for (const Values *values : {&operands.a, &operands.b, &operands.bias, &operands.c})
    place(*values);
  const auto gemm = must(device().makeGemm(facts));
  ASSERT_EQ(errorOf(stream.gemm(gemm, {at[0], at[1], at[2], at[3], 0})), "");
  EXPECT_EQ(download<float>(at[3], facts.m * facts.n), expected);
}

// One call's operands are nothing to the next.
TEST_F(GemmEpilogue, callsHaveOperandsOfTheirOwn) {
  const mgc_gemm_facts facts{16, 24, 32, 0, 0, 0, MGC_F32, MGC_F32, 0, 256, 0, MGC_BIAS};
  const auto gemm = must(device().makeGemm(facts));
  std::vector<Operands> operands;
  std::vector<plugin::DeviceBuffer> buffers;
  std::vector<mgc_gemm_operands> at;
  for (const uint64_t seed : {10, 20}) {
    const auto place = [&](int64_t count, uint64_t offset) {
      return buffers.emplace_back(uploaded(smallIntegers(count, seed + offset))).address();
    };
    at.push_back({place(16 * 32, 1), place(32 * 24, 2), place(24, 3), place(16 * 24, 4), 0});
  }
  for (const mgc_gemm_operands &one : at)
    ASSERT_EQ(errorOf(stream.gemm(gemm, one)), "");
  ASSERT_EQ(errorOf(stream.synchronize()), "");
  for (size_t i = 0; i < at.size(); ++i) {
    const uint64_t seed = i == 0 ? 10 : 20;
    Operands operands{smallIntegers(16 * 32, seed + 1), smallIntegers(32 * 24, seed + 2), Values(16 * 24),
                      smallIntegers(24, seed + 3)};
    EXPECT_EQ(download<float>(at[i].c, 16 * 24), run(facts, operands)) << i;
  }
}

TEST_F(GemmEpilogue, impossibleOnesAreRefused) {
  const auto error = [](int accumulate, int64_t k, int epilogue) {
    return errorOf(
        device().makeGemm({8, 12, k, 0, 0, accumulate, MGC_F32, MGC_F32, 0, 256, 0, mgc_epilogue(epilogue)}));
  };
  EXPECT_EQ(error(0, 8, MGC_BIAS), "");
  EXPECT_NE(error(1, 8, MGC_BIAS)
                .find("gemm m=8 n=12 k=8 f32 -> f32 accumulated with bias: expected a product that is "
                      "not empty and not added to what is there"),
            std::string::npos);
  EXPECT_NE(error(0, 0, MGC_BIAS).find("that is not empty"), std::string::npos);
  EXPECT_NE(error(0, 8, 2).find("epilogue 2, expected 0 or 1"), std::string::npos);
}

} // namespace
