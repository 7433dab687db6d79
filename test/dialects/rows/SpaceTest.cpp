// Iteration spaces: what the axis rule implies, and which spaces are one.
#include "OpKernel.h"

#include "dialects/mg/Mg.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace mgc::test {
namespace {

// "s b | h" of the only op.
std::string spaceOf(MLIRContext &context, const std::string &text) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  auto function = *module->getOps<func::FuncOp>().begin();
  RowSpace space = cast<RowOpInterface>(function.getBody().front().front()).getRowSpace();
  std::string names;
  for (auto &dim : space.rows)
    names += dim.name.str() + " ";
  names += "|";
  for (auto &dim : space.columns)
    names += " " + dim.name.str();
  return names;
}

struct Spaces : testing::Test {
  MLIRContext context;
  std::string x = f32("s:3 b:2 h:4"), row = f32("s:3 b:2"), w = f32("h:4");
  Spaces() { context.loadDialect<MgDialect, func::FuncDialect>(); }
  RowSpace::NamedDim dim(llvm::StringRef name, int64_t size) { return {StringAttr::get(&context, name), size}; }
};

TEST_F(Spaces, FollowTheRule) {
  EXPECT_EQ(spaceOf(context, oneOp("silu", {x}, {x})), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("sum", {x}, {w})), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("sum", {x}, {f32("s:3")})), "s | b h");
  EXPECT_EQ(spaceOf(context, oneOp("rms_norm", {x, "gamma " + w}, {x, row}, "{epsilon = 0.1 : f64}")), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("rms_norm_weight_grad", {x, row, x}, {w})), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("embed", {i32("s:3 b:2"), f32("v:5 h:4")}, {x})), "s b | h");
  std::string chosen = f32("s:3 b:2 k:2"), experts = i32("s:3 b:2 k:2"), score = "{score = \"none\"}";
  EXPECT_EQ(spaceOf(context, oneOp("route", {x}, {chosen, experts}, score)), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("route_grad", {x, experts, chosen}, {x}, score)), "s b | h");
  EXPECT_EQ(spaceOf(context, oneOp("pick", {x, i32("s:3 b:2")}, {row})), "s b |");
}

TEST_F(Spaces, Merge) {
  using Kind = RowSpace::Kind;
  auto s = dim("s", 3), b = dim("b", 2), h = dim("h", 4), f = dim("f", 4), shorter = dim("s", 2);
  RowSpace elementwise{Kind::elementwise, {s, b}, {h}}, perRow{Kind::elementwise, {s}, {b}};
  RowSpace norm{Kind::rows, {s, b}, {h}}, pick{Kind::rows, {s, b}, {}}, sums{Kind::columns, {s, b}, {h}};
  EXPECT_EQ(mergeSpaces(elementwise, norm), norm);
  EXPECT_EQ(mergeSpaces(norm, perRow), norm);
  EXPECT_EQ(mergeSpaces(pick, norm), norm);
  EXPECT_EQ(mergeSpaces(pick, elementwise), norm);
  EXPECT_EQ(mergeSpaces(sums, sums), sums);
  EXPECT_FALSE(mergeSpaces(sums, norm));
  EXPECT_FALSE(mergeSpaces(elementwise, perRow));
  EXPECT_FALSE(mergeSpaces(norm, RowSpace{Kind::rows, {s, b}, {f}}));
  EXPECT_FALSE(mergeSpaces(norm, RowSpace{Kind::elementwise, {shorter, b}, {h}}));
  EXPECT_FALSE(mergeSpaces(norm, RowSpace{Kind::alone, {s, b}, {h}}));
}

} // namespace
} // namespace mgc::test
