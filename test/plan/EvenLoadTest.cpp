#include "plan/EvenLoad.h"
#include "test/plan/SmallPlan.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

const Mesh kMesh = makeSmallPlan().mesh;
const RowKernel::Operand kFrom{OperandUse::read, 1000, 0, 0, true}, kTo{OperandUse::written, 1000, 0, 0, true},
    kSums{OperandUse::written, 500};
const RowKernel kRows{.symbol = "rows", .range = 8, .flops = 100, .bytes = 2000, .uses = {kFrom, kTo}};

// Four rows come to eight places: value 6 has the rank's own, 7 those that came, 8 and 9 are made of them, 5 is before the exchange.
Program program() {
  Program program;
  program.instructions = {{kRows, {{1, 0, 0, 5}, {1, 0, 0, 6}}, "own"},
                          {ExchangeRows{.groups = 1, .rows = 4, .places = 8, .width = 2, .axes = {"tp"}},
                           {{3, 0, 0, 4}, {1, 0, 0, 6}, {1, 0, 0, 7}},
                           "there"},
                          {kRows, {{1, 0, 0, 7}, {1, 0, 0, 8}}, "came"},
                          {GroupedGemm{.groups = 1, .rows = 8, .n = 8, .k = 9},
                           {{1, 0, 0, 8}, {0, 0, 0, 1}, {3, 0, 0, 2}, {1, 0, 0, 9}},
                           "product"},
                          {RowKernel{.symbol = "sum", .range = 8, .flops = 100, .bytes = 1500, .uses = {kFrom, kSums}},
                           {{1, 0, 0, 9}, {2, 0, 0, 10}},
                           "sum"}};
  return program;
}

TEST(EvenLoad, RowsThatComeFillAPart) {
  const Program of = program();
  const EvenLoad load(kMesh, of);
  const auto work = [&](size_t number) { return load.workOf(of.instructions[number]); };
  EXPECT_DOUBLE_EQ(work(0).flops, 100) << "a rank's own rows fill their places";
  EXPECT_DOUBLE_EQ(work(2).flops, 50);
  EXPECT_DOUBLE_EQ(work(2).bytes, 1000);
  EXPECT_DOUBLE_EQ(work(3).flops, 2.0 * 4 * 8 * 9);
  EXPECT_DOUBLE_EQ(work(4).flops, 100) << "a sum over choices has all tokens";
  EXPECT_DOUBLE_EQ(work(4).bytes, 500 + 500);
}

TEST(EvenLoad, WithoutAnOrderOrExchangeAllPlacesAreFilled) {
  Program of = program();
  of.instructions.erase(of.instructions.begin() + 1);
  EXPECT_DOUBLE_EQ(EvenLoad(kMesh, of).workOf(of.instructions[1]).flops, 100);
  EXPECT_DOUBLE_EQ(EvenLoad(kMesh, of).workOf(of.instructions[2]).flops, 2.0 * 8 * 8 * 9);
}

} // namespace
} // namespace mgc::plan
