// Ops that read the rank's coordinates or ids: embedding, the parallel loss, dropout.
#include "OpKernel.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kS = 5, kB = 2, kV = 24, kH = 19; // kV: rows of this rank's block
const std::string kIds = i32("s:5 b:2"), kTable = f32("v:24 h:19"), kX = f32("s:5 b:2 h:19");

// On rank 1, whose block of the table holds rows 24 to 47.
void expectEmbedded(Buffer &ids, int offset, const std::string &attributes) {
  Buffer table(randomFloats(kV * kH, 2)), dy(randomFloats(kS * kB * kH, 3));
  KernelContext rank;
  rank.coordinates["tp"] = 1;
  auto y = runRowOps(oneOp("embed", {kIds, kTable}, {kX}, attributes), {ids, table}, rank);
  rank.accumulate = true, rank.start = 1;
  auto dTable = runRowOps(oneOp("embed_grad", {kIds, kX}, {kTable}, attributes), {ids, dy}, rank);
  std::vector<double> expected(kS * kB * kH, 0), gradient(kV * kH, 1);
  for (int i = 0; i < kS * kB; ++i)
    for (int h = 0; h < kH; ++h)
      if (int row = ids.ints()[i] + offset - kV; row >= 0 && row < kV) {
        expected[i * kH + h] = table[row * kH + h];
        gradient[row * kH + h] += dy[i * kH + h];
      }
  expectClose(y[0], expected, 0);
  expectClose(dTable[0], gradient, 1e-6);
}

// Ids outside give zero rows and no gradient; one is there twice: gradients add up.
TEST(Indexed, EmbedReadsItsBlockOnly) {
  Buffer ids(randomInts(kS * kB, 1, 0, 3 * kV - 1));
  std::ranges::copy(std::array{kV, 2 * kV - 1, kV - 1, 2 * kV, kV}, ids.ints());
  expectEmbedded(ids, 0, "{coordinates = {v = [\"tp\"]}}");
}

// Ids count from row 5 of the whole table on; of the first two, one is the block's first row, one the last before it.
TEST(Indexed, EmbedReadsBehindItsOffset) {
  Buffer ids(randomInts(kS * kB, 1, 0, 2 * kV - 1));
  std::ranges::copy(std::array{kV - 5, kV - 5 - 1}, ids.ints());
  expectEmbedded(ids, 5, "{offset = 5 : i64, coordinates = {v = [\"tp\"]}}");
}

// The padding's id is that of the whole table: here row 3 of the block of rank 1.
TEST(Indexed, EmbedGradLeavesThePaddingOut) {
  Buffer ids(randomInts(kS * kB, 1, kV, 2 * kV - 1)), dy(randomFloats(kS * kB * kH, 3));
  ids.ints()[0] = ids.ints()[5] = kV + 3, ids.ints()[1] = kV + 4;
  KernelContext rank;
  rank.coordinates["tp"] = 1, rank.accumulate = true, rank.start = 1;
  std::string attributes = "{padding = 27 : i64, coordinates = {v = [\"tp\"]}}";
  auto dTable = runRowOps(oneOp("embed_grad", {kIds, kX}, {kTable}, attributes), {ids, dy}, rank);
  std::vector<double> gradient(kV * kH, 1);
  for (int i = 0; i < kS * kB; ++i)
    for (int h = 0; h < kH && ids.ints()[i] != kV + 3; ++h)
      gradient[(ids.ints()[i] - kV) * kH + h] += dy[i * kH + h];
  expectClose(dTable[0], gradient, 1e-6);
}

// Rank 1 of 2 has positions 4 to 7 of t, each sample's own; the gradient is the same with both exchanged.
TEST(Indexed, RelocateReadsThePositionOfItsSample) {
  constexpr int kT = 4;
  const std::string rows = f32("t:4 b:2 h:19"), sources = i32("t:4 b:2");
  Buffer x(randomFloats(kT * kB * kH, 2)), dy(randomFloats(kS * kB * kH, 3));
  Buffer places(std::vector<int32_t>{-1, 7, 6, -1, 4, 8, 3, 4, 5, -1}); // [s, b]
  Buffer inverse(std::vector<int32_t>{2, 3, 4, -1, 1, -1, -1, 0});      // [t, b]
  KernelContext rank;
  rank.coordinates["tp"] = 1;
  auto y = runRowOps(oneOp("relocate", {rows, kIds, sources}, {kX}, "{coordinates = {t = [\"tp\"]}}"),
                     {x, places, inverse}, rank);
  auto dx = runRowOps(oneOp("relocate", {kX, sources, kIds}, {rows}), {dy, inverse, places}, rank);
  std::vector<double> expected(kS * kB * kH, 0), gradient(kT * kB * kH, 0);
  for (int s = 0; s < kS; ++s)
    for (int b = 0; b < kB; ++b)
      if (const int t = places.ints()[s * kB + b] - kT; t >= 0 && t < kT)
        for (int h = 0; h < kH; ++h) {
          expected[(s * kB + b) * kH + h] = x[(t * kB + b) * kH + h];
          gradient[(t * kB + b) * kH + h] = dy[(s * kB + b) * kH + h];
        }
  expectClose(y[0], expected, 0);
  expectClose(dx[0], gradient, 0);
}

const std::string kLogits = f32("s:5 b:2 v:24"), kToken = f32("s:5 b:2");

// The last rank's block: global columns 48..71, of which those from 60 on are padding.
struct Loss {
  static constexpr int first = 2 * kV, valid = 60;
  Buffer logits{randomFloats(kS * kB * kV, 4, -3, 3)}, labels{randomInts(kS * kB, 5, 0, valid - 1)},
      weights{randomFloats(kS * kB, 6, 0, 1)}, lse{randomFloats(kS * kB, 7, 3, 4)};
  KernelContext rank;
  Loss() {
    rank.coordinates["tp"] = 2;
    labels.ints()[0] = first, labels.ints()[1] = valid - 1, labels.ints()[2] = first - 1;
    for (int i = 0; i < kS * kB; ++i)
      logits[i * kV + kV - 1] = 100; // padding that would win
  }
  std::string attributes = "{valid = 60 : i64, coordinates = {v = [\"tp\"]}}";
};

TEST(Indexed, LossPartsInOneKernel) {
  Loss loss;
  std::string coordinates = "{coordinates = {v = [\"tp\"]}}", a = loss.attributes;
  std::string text = "func.func @f(%x: " + kLogits + ", %l: " + kIds + ") -> (" + kToken + ", " + kToken + ", " +
                     kToken + ", " + kToken + ") {\n%m = mg.max %x " + a + " : (" + kLogits + ") -> " + kToken +
                     "\n%s = mg.sum_exp %x, %m " + a + " : (" + kLogits + ", " + kToken + ") -> " + kToken +
                     "\n%e = mg.log_sum_exp %m, %s : (" + kToken + ", " + kToken + ") -> " + kToken +
                     "\n%p = mg.pick %x, %l " + coordinates + " : (" + kLogits + ", " + kIds + ") -> " + kToken +
                     "\nreturn %m, %s, %e, %p : " + kToken + ", " + kToken + ", " + kToken + ", " + kToken + "\n}";
  auto results = runRowOps(text, {loss.logits, loss.labels}, loss.rank);
  std::vector<double> max, sum, lse, picked;
  for (int i = 0; i < kS * kB; ++i) {
    double m = -INFINITY, e = 0;
    for (int v = 0; v + Loss::first < Loss::valid; ++v)
      m = std::max(m, double(loss.logits[i * kV + v]));
    for (int v = 0; v + Loss::first < Loss::valid; ++v)
      e += std::exp(loss.logits[i * kV + v] - m);
    int column = loss.labels.ints()[i] - Loss::first;
    max.push_back(m), sum.push_back(e), lse.push_back(m + std::log(e));
    picked.push_back(column >= 0 && column < kV ? loss.logits[i * kV + column] : 0);
  }
  expectClose(results[0], max, 0, "max");
  expectClose(results[1], sum, 1e-6, "sum_exp");
  expectClose(results[2], lse, 1e-6, "lse");
  expectClose(results[3], picked, 0, "pick");
}

TEST(Indexed, LossGradientMasksPadding) {
  Loss loss;
  auto dx = runRowOps(oneOp("cross_entropy_grad", {kLogits, kToken, kIds, kToken}, {kLogits}, loss.attributes),
                      {loss.logits, loss.lse, loss.labels, loss.weights}, loss.rank);
  std::vector<double> expected;
  for (int i = 0; i < kS * kB; ++i)
    for (int v = 0; v < kV; ++v) {
      double p = std::exp(double(loss.logits[i * kV + v]) - loss.lse[i]) - (loss.labels.ints()[i] == v + Loss::first);
      expected.push_back(v + Loss::first < Loss::valid ? p * loss.weights[i] : 0);
    }
  expectClose(dx[0], expected, 2e-6);
}

// Equal to the generator of runtime/random/Philox.h word by word, on the second of two blocks of columns.
TEST(Indexed, DropoutIsKeyedByGlobalPositions) {
  Buffer x(randomFloats(kS * kB * kH, 8, 1, 2)), positions(randomInts(kS * kB, 9, 0, 1000)),
      samples(randomInts(kB, 10, 0, 100000));
  KernelContext rank;
  rank.coordinates["tp"] = 1, rank.seed = 0x123456789abcdef0, rank.instance = 7;
  std::string attributes = "{p = 0.3 : f64, site = \"mlp.residual\", coordinates = {h = [\"tp\"]}}";
  auto y = runRowOps(oneOp("dropout", {kX, kIds, i32("b:2")}, {kX}, attributes), {x, positions, samples}, rank);
  PhiloxKey key = dropoutKey(rank.seed, hashName("mlp.residual"), 7);
  std::vector<double> expected;
  int dropped = 0;
  for (int i = 0; i < kS * kB * kH; ++i) {
    uint32_t column = i % kH + kH;
    auto words =
        philox({column / 4, uint32_t(positions.ints()[i / kH]), uint32_t(samples.ints()[i / kH % kB]), 0}, key);
    bool keep = words[column % 4] >= dropoutThreshold(0.3);
    dropped += !keep;
    expected.push_back(keep ? x[i] / 0.7 : 0);
  }
  expectClose(y[0], expected, 1e-6);
  EXPECT_GT(dropped, 20);
  EXPECT_LT(dropped, 100); // 190 in all
}

} // namespace
} // namespace mgc::test
