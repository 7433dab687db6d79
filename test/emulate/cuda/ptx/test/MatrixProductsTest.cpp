// mma.m16n8k16 of bf16: matrices are laid out by hand as PTX ISA says, and the product made by plain loops.
#include "test/emulate/cuda/ptx/test/Harness.h"

namespace mgc::ptx {
namespace {

// Small whole numbers, whose products and sums are exact.
float valueOf(uint32_t row, uint32_t column, uint32_t matrix) {
  return float(int(row * 7 + column * 3 + matrix * 5) % 11 - 5);
}

uint32_t pairOf(float low, float high) {
  return std::bit_cast<uint32_t>(low) >> 16 | (std::bit_cast<uint32_t>(high) & 0xFFFF0000u);
}

std::string loads(const char *registers, int count, int pointer) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("ld.global.b32 {}, [%p{}+{}];\n", fmt::format(fmt::runtime(registers), i), pointer, 4 * i);
  return text;
}

// Each lane has its registers after each other: 4 of A, 2 of B, 4 of C.
std::string bodyOf(const std::string &guard = "") {
  std::string text = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 40;\nadd.u64 %p1, %d0, %p0;\n";
  text += loads("%r{}", 10, 1);
  for (int i = 0; i < 4; ++i)
    text += fmt::format("mov.b32 %f{}, %r{};\n", i, 6 + i);
  text += guard + "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
                  "{%r4, %r5}, {%f0, %f1, %f2, %f3};\n";
  for (int i = 0; i < 4; ++i)
    text += fmt::format("st.global.f32 [%p1+{}], %f{};\n", 24 + 4 * i, i);
  return text;
}

TEST(MatrixProducts, AreThoseOfTheirElements) {
  std::vector<uint32_t> registers(32 * 10);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t line = lane / 4, pair = lane % 4 * 2;
    uint32_t *of = registers.data() + lane * 10;
    const auto a = [](uint32_t row, uint32_t k) { return pairOf(valueOf(row, k, 0), valueOf(row, k + 1, 0)); };
    const auto b = [](uint32_t k, uint32_t column) { return pairOf(valueOf(k, column, 1), valueOf(k + 1, column, 1)); };
    of[0] = a(line, pair), of[1] = a(line + 8, pair), of[2] = a(line, pair + 8), of[3] = a(line + 8, pair + 8);
    of[4] = b(pair, line), of[5] = b(pair + 8, line);
    for (uint32_t i = 0; i < 4; ++i)
      of[6 + i] = std::bit_cast<uint32_t>(valueOf(line + i / 2 * 8, pair + i % 2, 2));
  }
  ASSERT_EQ(runOn(entryOf(bodyOf(), 1), {.block = {32}}, registers), "");
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t column = 0; column < 8; ++column) {
      float sum = valueOf(row, column, 2);
      for (uint32_t k = 0; k < 16; ++k)
        sum += valueOf(row, k, 0) * valueOf(k, column, 1);
      const uint32_t lane = row % 8 * 4 + column / 2, number = row / 8 * 2 + column % 2;
      ASSERT_EQ(std::bit_cast<float>(registers[lane * 10 + 6 + number]), sum) << row << " " << column;
    }
}

TEST(MatrixProducts, AreOfWholeWarps) {
  std::vector<uint32_t> registers(32 * 10);
  const std::string body = "mov.u32 %r11, %tid.x;\nsetp.lt.u32 %q0, %r11, 5;\n@%q0 ret;\n" + bodyOf();
  EXPECT_NE(runOn(entryOf(body, 1), {.block = {32}}, registers).find("by the lanes 0xffffffe0 alone"),
            std::string::npos);
}

TEST(MatrixProducts, OfOtherShapesAreNotKnown) {
  EXPECT_NE(
      errorOf(entryOf("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, "
                      "{%f0, %f1, %f2, %f3};",
                      0))
          .find("does not know the product mma.sync.aligned.m16n8k8"),
      std::string::npos);
}

} // namespace
} // namespace mgc::ptx
