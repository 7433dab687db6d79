// How bf16 is multiplied: asked for, remembered or measured; and what is chosen is what multiplies.
#include "runtime/exec/Bf16Choice.h"

#include "runtime/kernels/GemmNative.h"
#include "test/runtime/TempDir.h"

#include <gtest/gtest.h>

using namespace mgc;

namespace {

constexpr Bf16Times kSlowNative = {0.010, 0.018}, kFastNative = {0.020, 0.008}, kAlike = {0.010, 0.009};

Bf16Timer taking(Bf16Times times, int &calls) {
  return [times, &calls](int) {
    ++calls;
    return times;
  };
}

Bf16Choice choose(const Bf16Options &options, bool isNative, Bf16Times times, int &calls) {
  Result<Bf16Choice> choice = chooseBf16Product(options, 2, isNative, taking(times, calls));
  EXPECT_TRUE(choice.isOk()) << choice.status().message();
  return choice.isOk() ? *choice : Bf16Choice{};
}

} // namespace

TEST(Bf16Choice, nativeOnlyWhereClearlyFaster) {
  EXPECT_EQ(fasterOf(kSlowNative), Bf16Product::panels);
  EXPECT_EQ(fasterOf(kAlike), Bf16Product::panels);
  EXPECT_EQ(fasterOf(kFastNative), Bf16Product::native);
}

TEST(Bf16Choice, nothingToChooseWithoutNativeProducts) {
  int calls = 0;
  const Bf16Choice choice = choose({}, false, kFastNative, calls);
  EXPECT_EQ(choice.product, Bf16Product::panels);
  EXPECT_EQ(choice.note, "");
  EXPECT_EQ(calls, 0);
}

TEST(Bf16Choice, asAskedFor) {
  int calls = 0;
  EXPECT_EQ(choose({Bf16Product::native, ""}, true, kSlowNative, calls).product, Bf16Product::native);
  EXPECT_EQ(choose({Bf16Product::panels, ""}, true, kFastNative, calls).product, Bf16Product::panels);
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(test::fails(chooseBf16Product({Bf16Product::native, ""}, 2, false), {"possible: panels, auto"}));
}

// Later runs on the machine have the bits of the first one, whatever they would measure.
TEST(Bf16Choice, remembersWhatWasMeasured) {
  const test::TempDir folder;
  const Bf16Options options = {std::nullopt, folder.path("cache.json")};
  int calls = 0;
  EXPECT_EQ(choose(options, true, kFastNative, calls).product, Bf16Product::native);
  EXPECT_EQ(choose(options, true, kSlowNative, calls).product, Bf16Product::native);
  EXPECT_EQ(calls, 1);
}

TEST(Bf16Choice, cacheThatIsNoneIsLeftAlone) {
  const test::TempDir folder;
  const Bf16Options options = {std::nullopt, folder.path("cache.json")};
  folder.write("cache.json", "not JSON");
  int calls = 0;
  const Bf16Choice choice = choose(options, true, kFastNative, calls);
  EXPECT_EQ(choice.product, Bf16Product::native);
  EXPECT_NE(choice.note.find("not kept"), std::string::npos) << choice.note;
  EXPECT_EQ(folder.read("cache.json"), "not JSON");
}

TEST(Bf16Choice, measuresBothInTime) {
  const Bf16Times times = timeBf16Products(1);
  EXPECT_GT(times.panels, 0);
  EXPECT_LT(times.panels, 60);
  EXPECT_GT(times.native, 0); // infinite where there is none
}

TEST(Bf16Choice, multipliesByWhatIsSet) {
  const plan::Gemm gemm = {.m = 3, .n = 5, .k = 2000, .inputType = plan::DType::bf16};
  std::vector<Bf16> a(gemm.m * gemm.k), b(gemm.k * gemm.n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = toBf16(1 + float(i % 97) / 64);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = toBf16(1 - float(i % 89) / 64);
  const auto result = [&](auto &&product) {
    std::vector<float> c(gemm.m * gemm.n);
    product(gemm, a.data(), b.data(), c.data(), 1);
    return c;
  };
  const Bf16Product before = bf16Product();
  setBf16Product(Bf16Product::panels);
  EXPECT_EQ(result(bf16Gemm), result(panelGemm));
  setBf16Product(Bf16Product::native);
  std::vector<float> c(gemm.m * gemm.n);
  const bool isNative = nativeGemm(gemm, a.data(), b.data(), c.data(), 1);
  EXPECT_EQ(result(bf16Gemm), isNative ? result(nativeGemm) : result(panelGemm));
  setBf16Product(before);
}
