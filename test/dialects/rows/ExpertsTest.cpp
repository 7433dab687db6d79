// Tokens to rows in the order of their experts and back, against the definition: the pair of a row is sources[row], the row of a
// pair places[pair].
#include "test/dialects/rows/OpKernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kS = 5, kB = 3, kK = 4, kH = 21, kPairs = kS * kB * kK;
const std::string kTokens = f32("s:5 b:3 h:21"), kChoices = i32("s:5 b:3 k:4"), kWeights = f32("s:5 b:3 k:4"),
                  kRows = f32("c:60 h:21"), kColumn = f32("c:60"), kSources = i32("c:60");

std::string rowsOp(const std::string &name, const std::string &from, const std::string &order, const std::string &to) {
  return fmt::format("func.func @op(%x: {1}, %ids: {2}, %order: {3}) -> {4} {{\n"
                     "  %y = mg.{0} %x to %ids order %order {{count = 7 : i64}} : ({1}, {2}, {3}) -> {4}\n"
                     "  return %y : {4}\n}}",
                     name, from, kChoices, order, to);
}

// A permutation that moves every pair: 7 does not divide 60.
struct Order {
  std::vector<int32_t> experts = randomInts(kPairs, 1, 0, 6), places, sources = std::vector<int32_t>(kPairs);
  Order() {
    for (int pair = 0; pair < kPairs; ++pair) {
      places.push_back((pair * 7 + 3) % kPairs);
      sources[places.back()] = pair;
    }
  }
};
const Order kOrder;

TEST(Experts, DispatchCopiesATokenToItsRows) {
  Buffer x(randomFloats(kS * kB * kH, 3)), experts(kOrder.experts), sources(kOrder.sources);
  auto y = runRowOps(rowsOp("dispatch", kTokens, kSources, kRows), {x, experts, sources});
  std::vector<double> expected;
  for (int row = 0; row < kPairs; ++row)
    for (int h = 0; h < kH; ++h)
      expected.push_back(x[kOrder.sources[row] / kK * kH + h]);
  expectClose(y[0], expected, 0);
}

TEST(Experts, CombineAddsTheRowsOfAToken) {
  Buffer rows(randomFloats(kPairs * kH, 4)), experts(kOrder.experts), places(kOrder.places);
  auto y = runRowOps(rowsOp("combine", kRows, kChoices, kTokens), {rows, experts, places});
  std::vector<double> expected(kS * kB * kH, 0);
  for (int pair = 0; pair < kPairs; ++pair)
    for (int h = 0; h < kH; ++h)
      expected[pair / kK * kH + h] += rows[kOrder.places[pair] * kH + h];
  expectClose(y[0], expected, 1e-6);
}

TEST(Experts, SpreadAndCollectMoveANumberForEachChoice) {
  Buffer weights(randomFloats(kPairs, 5)), experts(kOrder.experts), places(kOrder.places), sources(kOrder.sources);
  auto column = runRowOps(rowsOp("spread", kWeights, kSources, kColumn), {weights, experts, sources});
  std::vector<double> expected;
  for (int row = 0; row < kPairs; ++row)
    expected.push_back(weights[kOrder.sources[row]]);
  expectClose(column[0], expected, 0);
  auto back = runRowOps(rowsOp("collect", kColumn, kChoices, kWeights), {column[0], experts, places});
  expectClose(back[0], std::vector<double>(weights.data(), weights.data() + kPairs), 0);
}

TEST(Experts, RowMaskIsOneWhereThereIsARow) {
  std::vector<int32_t> sources = kOrder.sources;
  for (int row = 40; row < kPairs; ++row) // behind the last row
    sources[row] = kPairs;
  Buffer experts(kOrder.experts), order(sources);
  auto mask = runRowOps("func.func @op(%ids: " + kChoices + ", %order: " + kSources + ") -> " + kColumn +
                            " {\n  %y = mg.row_mask %ids order %order {count = 7 : i64} : (" + kChoices + ", " +
                            kSources + ") -> " + kColumn + "\n  return %y : " + kColumn + "\n}",
                        {experts, order});
  for (int row = 0; row < kPairs; ++row)
    EXPECT_EQ(mask[0][row], row < 40) << row;
}

} // namespace
} // namespace mgc::test
