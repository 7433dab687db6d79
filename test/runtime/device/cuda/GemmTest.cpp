// Products: small integers, exact in every order, against the CPU's product to the bit; random numbers against sums in double,
// within what f32 sums, rounded as docs/plan-format.md says, can be off.
#include "GemmOnDevice.h"

#include "runtime/kernels/CpuGemm.h"

#include <cmath>

using namespace mgc;
using namespace mgc::test;

namespace {

class Gemm : public GemmOnDevice {};

std::vector<mgc_gemm_facts> allFacts() {
  std::vector<mgc_gemm_facts> all;
  const int64_t shapes[][3] = {{1, 1, 1},      {1, 8, 16},   {8, 1, 64},   {16, 16, 16},  {33, 65, 129},
                               {128, 64, 256}, {64, 200, 1}, {7, 130, 40}, {96, 96, 512}, {256, 32, 24}};
  for (const auto &[m, n, k] : shapes)
    for (int bits = 0; bits < 8; ++bits)
      for (const auto &[input, output] : {std::pair{MGC_F32, MGC_F32}, {MGC_BF16, MGC_F32}, {MGC_BF16, MGC_BF16}}) {
        const int64_t workspace = (m + n) % 2 ? 0 : 1 << 18;
        all.push_back(
            {m, n, k, bits & 1, bits >> 1 & 1, bits >> 2 & 1, input, output, workspace, 256, 0, MGC_NO_EPILOGUE});
      }
  return all;
}

// The product alone, on the CPU.
Values productOf(const mgc_gemm_facts &facts, const Operands &operands) {
  Values product(size_t(facts.m * facts.n));
  plan::Gemm gemm;
  gemm.m = facts.m, gemm.n = facts.n, gemm.k = facts.k;
  gemm.transposeA = facts.transpose_a, gemm.transposeB = facts.transpose_b;
  mgc::gemm(gemm, operands.a.data(), operands.b.data(), product.data(), 1);
  return product;
}

// To the bit: what is there is added to the product, or to the product as its type has it, and the sum is rounded.
TEST_F(Gemm, integersAreExact) {
  for (const mgc_gemm_facts &facts : allFacts()) {
    Operands operands = operandsOf(facts, smallIntegers);
    const Values before = operands.c, seen = run(facts, operands), product = productOf(facts, operands);
    const auto rounded = [&](float x) { return facts.output == MGC_BF16 ? floatOf(bf16Of(x)) : x; };
    for (size_t i = 0; i < seen.size(); ++i) {
      const float old = facts.accumulate ? before[i] : 0;
      const float once = rounded(old + product[i]), twice = rounded(old + rounded(product[i]));
      ASSERT_TRUE(seen[i] == once || seen[i] == twice)
          << seen[i] << "; expected " << once << " or " << twice << ": " << describe(facts) << " at " << i;
    }
  }
}

// |error| <= (k + 1) 2^-24 sum |a b|, half a unit of the result's type, and half a unit of the product's where it is added to.
TEST_F(Gemm, randomNumbersAreWithinTheErrorOfTheirSums) {
  for (const mgc_gemm_facts &facts : allFacts()) {
    Operands operands = operandsOf(facts, randomValues);
    const Values seen = run(facts, operands);
    for (int64_t i = 0; i < facts.m; ++i)
      for (int64_t j = 0; j < facts.n; ++j) {
        const double old = facts.accumulate ? operands.c[i * facts.n + j] : 0;
        double sum = old, magnitude = std::abs(sum);
        for (int64_t p = 0; p < facts.k; ++p) {
          const double term = double(operands.a[facts.transpose_a ? p * facts.m + i : i * facts.k + p]) *
                              operands.b[facts.transpose_b ? j * facts.k + p : p * facts.n + j];
          sum += term;
          magnitude += std::abs(term);
        }
        const double ofSum = double(facts.k + 1) * std::ldexp(magnitude, -24);
        const double ofProduct = facts.accumulate ? roundingOf(facts.output, std::abs(sum - old) + ofSum) : 0;
        const double bound = ofSum + ofProduct;
        ASSERT_NEAR(seen[i * facts.n + j], sum, bound + roundingOf(facts.output, std::abs(sum) + bound))
            << describe(facts) << " at " << i << "," << j;
      }
  }
}

// Operands anywhere in the arena: multiples of the element alone.
TEST_F(Gemm, operandsThatAreHardlyAligned) {
  for (const mgc_type type : {MGC_F32, MGC_BF16}) {
    const int64_t bytes = type == MGC_BF16 ? 2 : 4;
    const mgc_gemm_facts facts{16, 24, 32, 0, 1, 1, type, type, 0, bytes, 0, MGC_NO_EPILOGUE};
    Operands operands = operandsOf(facts, smallIntegers);
    const Values expected = run(facts, operands);
    const auto arena = must(device().allocate(1 << 20));
    const mgc_address at[] = {arena.address() + bytes, arena.address() + (1 << 16) + 3 * bytes,
                              arena.address() + (1 << 17) + 5 * bytes};
    const auto a = uploadedAs(type, operands.a), b = uploadedAs(type, operands.b), c = uploadedAs(type, operands.c);
    ASSERT_EQ(errorOf(stream.copy(at[0], a.address(), a.bytes())), "");
    ASSERT_EQ(errorOf(stream.copy(at[1], b.address(), b.bytes())), "");
    ASSERT_EQ(errorOf(stream.copy(at[2], c.address(), c.bytes())), "");
    const auto gemm = must(device().makeGemm(facts));
    ASSERT_EQ(errorOf(stream.gemm(gemm, {at[0], at[1], 0, at[2], 0})), "");
    EXPECT_EQ(downloadAs(type, at[2], facts.m * facts.n), expected);
  }
}

TEST_F(Gemm, emptyProducts) {
  for (const int accumulate : {0, 1})
    for (const auto &[m, n, k] : {std::array<int64_t, 3>{4, 3, 0}, {0, 3, 5}, {4, 0, 5}}) {
      const mgc_gemm_facts facts{m, n, k, 0, 0, accumulate, MGC_F32, MGC_F32, 0, 256, 0, MGC_NO_EPILOGUE};
      Operands operands = operandsOf(facts, smallIntegers);
      EXPECT_EQ(run(facts, operands), accumulate ? operands.c : Values(m * n)) << describe(facts);
    }
}

TEST_F(Gemm, sameBitsEveryTime) {
  const mgc_gemm_facts facts{64, 64, 4096, 0, 0, 0, MGC_BF16, MGC_F32, 4 << 20, 256, 0, MGC_NO_EPILOGUE};
  Operands operands = operandsOf(facts, randomValues);
  const Values first = run(facts, operands);
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(run(facts, operands), first);
}

TEST_F(Gemm, everyAlgorithmComputesTheProduct) {
  mgc_gemm_facts facts{96, 80, 512, 0, 1, 0, MGC_BF16, MGC_F32, 1 << 20, 256, 0, MGC_NO_EPILOGUE};
  Operands operands = operandsOf(facts, smallIntegers);
  const Values expected = run(facts, operands);
  while (true) {
    ++facts.algorithm;
    if (const auto gemm = device().makeGemm(facts); !gemm.isOk()) {
      EXPECT_NE(errorOf(gemm).find("choose again"), std::string::npos) << errorOf(gemm);
      break;
    }
    ASSERT_EQ(run(facts, operands), expected) << facts.algorithm;
  }
}

TEST_F(Gemm, chosenAlgorithmComputesTheProduct) {
  mgc_gemm_facts facts{96, 80, 512, 1, 0, 1, MGC_BF16, MGC_F32, 1 << 20, 256, 0, MGC_NO_EPILOGUE};
  Operands operands = operandsOf(facts, smallIntegers);
  const Values expected = run(facts, operands);
  const int64_t needed = must(device().roomToChooseGemm(stream, facts));
  EXPECT_EQ(needed, 2 * 96 * 512 + 2 * 80 * 512 + 4 * 96 * 80 + (1 << 20));
  const auto room = must(device().allocate(needed));
  ASSERT_EQ(errorOf(stream.fill(room.address(), 0, needed)), "");
  facts.algorithm = must(device().chooseGemm(stream, facts, room.address()));
  EXPECT_EQ(run(facts, operands), expected);
}

TEST_F(Gemm, impossibleProductsAreRefused) {
  const auto error = [](mgc_gemm_facts facts) { return errorOf(device().makeGemm(facts)); };
  EXPECT_NE(error({8, 8, 8, 0, 0, 0, MGC_F32, MGC_BF16, 0, 256, 0, MGC_NO_EPILOGUE})
                .find("expected f32 -> f32, bf16 -> f32 or bf16 -> bf16"),
            std::string::npos);
  EXPECT_NE(error({8, 8, 8, 0, 0, 0, MGC_F32, MGC_F32, 0, 2, 0, MGC_NO_EPILOGUE}).find("said to be multiples of 2"),
            std::string::npos);
  EXPECT_NE(error({8, 8, 8, 0, 0, 0, MGC_F32, MGC_F32, 0, 24, 0, MGC_NO_EPILOGUE}).find("said to be multiples of 24"),
            std::string::npos);
  EXPECT_NE(error({-1, 8, 8, 0, 0, 0, MGC_F32, MGC_F32, 0, 256, 0, MGC_NO_EPILOGUE}).find("a number is negative"),
            std::string::npos);
}

} // namespace
