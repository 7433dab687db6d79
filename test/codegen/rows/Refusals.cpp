// Graphs that are refused, kernels that are shared, MLIR that is printed.
#include "codegen/rows/graph/RowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "test/codegen/rows/Harness.h"
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

static std::string errorOf(const RowGraph &graph) {
  Status status = graph.verify();
  return status.isOk() ? "" : status.message();
}

struct Small {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 4), C = g.addDim(DimKind::column, 8);
  RowOperand x = g.addOperand(Element::f32, Access::in, {R, C});
  RowOperand y = g.addOperand(Element::f32, Access::out, {R, C});
  RowOperand row = g.addOperand(Element::f32, Access::out, {R});
  RowOperand column = g.addOperand(Element::f32, Access::out, {C});
};

TEST(Refusals, MixedRowAndColumnResults) {
  Small t;
  t.g.store(t.row, t.g.constant(1));
  t.g.storeSumOverRows(t.column, t.g.load(t.x));
  EXPECT_EQ(errorOf(t.g), "effect 0: a value per row in a kernel that sums over rows; expected two kernels");
  Small u;
  Node sum = u.g.reduce(RowReduction::sum, u.g.load(u.x));
  u.g.storeSumOverRows(u.column, mul(u.g, u.g.load(u.x), sum));
  EXPECT_EQ(errorOf(u.g), "node %1: a row reduction in a kernel that sums over rows; expected its result as an "
                          "operand, stored before");
}

TEST(Refusals, AccessesThatDoNotFit) {
  Small t;
  t.g.store(t.row, t.g.load(t.x));
  EXPECT_EQ(errorOf(t.g), "effect 0: node %0 changes along the columns, operand 2 has none; expected a per-row value");
  Small u;
  u.g.store(u.column, u.g.load(u.x));
  EXPECT_EQ(errorOf(u.g), "effect 0: operand 3 lacks a row dim; expected all");
  Small v;
  v.g.store(v.x, v.g.load(v.x));
  EXPECT_EQ(errorOf(v.g), "effect 0: stores to operand 0, which is for input only");
  Small w;
  w.g.store(w.row, w.g.load(w.x, {{w.C, 8}}));
  EXPECT_EQ(errorOf(w.g), "node %0: position 8 of dim 1, expected 0 to 7");
  Small z;
  Node moving = z.g.index(z.C);
  z.g.store(z.row, z.g.load(z.x, {{z.C, moving}}));
  EXPECT_EQ(errorOf(z.g), "node %1: the index %0 changes along the columns; expected a per-row value");
  EXPECT_EQ(errorOf(Small().g), "the graph stores nothing: expected at least one store, storeSumOverRows or addAt");
}

TEST(Refusals, ValuesOfBf16) {
  Small t;
  Body body = [](mlir::OpBuilder &, mlir::Location, mlir::ValueRange x) { return x[0]; };
  Node half = t.g.map("half", body, {t.g.load(t.x)}, Element::bf16);
  t.g.store(t.y, t.g.map("whole", body, {half}));
  EXPECT_EQ(errorOf(t.g), "node %1: bf16 is for operands; expected a value of f32");
}

TEST(Refusals, RowsThatDoNotFitTheirPitch) {
  auto errorWith = [](Pitch pitch) {
    Small t;
    t.g.store(t.g.addOperand(Element::f32, Access::out, {t.R, t.C}, pitch), t.g.load(t.x));
    return errorOf(t.g);
  };
  EXPECT_EQ(errorWith({1, 8}), "");
  EXPECT_EQ(errorWith({1, 7}), "operand 4: pitch 7 for rows of 8 elements");
  EXPECT_EQ(errorWith({3, 8}), "operand 4: pitch of 8 elements after 3 of 2 dims");
  EXPECT_EQ(errorWith({1, -8}), "operand 4: pitch of -8 elements after 1 of 2 dims");
  EXPECT_EQ(errorWith({1, INT64_MAX / 2}), "operand 4: larger than 2^63 bytes");
}

TEST(Refusals, SizesAndDims) {
  RowGraph g;
  Dim bad = g.addDim(DimKind::column, 0), late = g.addDim(DimKind::row, 3);
  g.store(g.addOperand(Element::f32, Access::out, {bad, late, late}), g.constant(1));
  EXPECT_EQ(errorOf(g), "dim 0: size 0, expected at least 1\n"
                        "dim 1: a row dim after a column dim; expected every row dim first\n"
                        "operand 0: has dim 1 twice");
}

// A whole bucket of parameters may be one long dim, as long as nobody asks for positions in it.
TEST(Refusals, PositionsInLongDims) {
  RowGraph g;
  Dim c = g.addDim(DimKind::column, int64_t(1) << 31);
  RowOperand x = g.addOperand(Element::f32, Access::in, {c});
  g.store(g.addOperand(Element::f32, Access::out, {}), g.reduce(RowReduction::sum, g.load(x)));
  EXPECT_EQ(errorOf(g), "");
  g.store(g.addOperand(Element::i32, Access::out, {c}), g.index(c));
  EXPECT_EQ(errorOf(g), "node %2: dim 0 has size 2147483648, but positions are i32; expected at most 2147483647");
}

TEST(Refusals, UnresolvedSymbols) {
  Small t;
  Body body = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) -> mlir::Value {
    return mlir::math::TanhOp::create(b, loc, x[0]);
  };
  t.g.store(t.y, t.g.map("libm", body, {t.g.load(t.x)}));
  auto result = compileKernels({{"k", t.g}}, {{kTestTarget, ::testing::TempDir() + "/never.so"}});
  ASSERT_FALSE(result.isOk());
  EXPECT_NE(result.status().message().find("tanh"), std::string::npos) << result.status().message();
}

TEST(Refusals, BodyOfAnotherType) {
  Small t;
  Body body = [](mlir::OpBuilder &, mlir::Location, mlir::ValueRange x) -> mlir::Value { return x[0]; };
  t.g.store(t.g.addOperand(Element::i32, Access::out, {t.R, t.C}),
            t.g.map("same", body, {t.g.load(t.x)}, Element::i32));
  auto result = compileKernels({{"k", t.g}}, {{kTestTarget, ::testing::TempDir() + "/never.so"}});
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(), "kernel k: map 'same': its body gives another type than the node says");
}

TEST(Refusals, NamesAndTargets) {
  Small t;
  t.g.store(t.y, t.g.load(t.x));
  auto message = [&](std::vector<NamedGraph> graphs) {
    auto result = compileKernels(graphs, {{kTestTarget, ::testing::TempDir() + "/never.so"}});
    return result.isOk() ? std::string() : result.status().message();
  };
  auto targetError = [](const char *cpu) { return CpuTarget::find(cpu).status().message(); };
  EXPECT_EQ(message({{"a-b", t.g}}), "kernel 'a-b': the symbol is not a C identifier");
  EXPECT_EQ(message({{"k", t.g}, {"k", t.g}}), "kernel 'k': the symbol is used twice");
  EXPECT_EQ(targetError("x86-64-v2"), "kernels: cpu 'x86-64-v2' lacks avx2 or fma; expected at least x86-64-v3");
  EXPECT_NE(targetError("z80").find("unknown cpu 'z80'"), std::string::npos);
}

TEST(Sharing, EqualGraphsAreCompiledOnce) {
  Small a, b, c;
  a.g.store(a.y, scale(a.g, a.g.load(a.x), 2));
  b.g.store(b.y, scale(b.g, b.g.load(b.x), 2));
  c.g.store(c.y, scale(c.g, c.g.load(c.x), 3));
  EXPECT_EQ(a.g.key(), b.g.key());
  EXPECT_NE(a.g.key(), c.g.key());
  Library library({{"a", a.g}, {"b", b.g}, {"c", c.g}});
  EXPECT_EQ(library.symbol(1), "a");
  EXPECT_EQ(library.symbol(2), "c");
  for (size_t kernel = 0; kernel < 3; ++kernel) {
    Buffer x(randomFloats(32, 1)), y(32), row(4), column(8);
    library.run(kernel, {&x, &y, &row, &column});
    EXPECT_EQ(y[5], x[5] * (kernel == 2 ? 3 : 2));
  }
}

TEST(Sharing, PrintsTheKernels) {
  Small t;
  t.g.store(t.y, exp(t.g, t.g.load(t.x)));
  std::string text;
  CompileOptions options;
  options.printed = &text;
  Library library({{"kernel_a", t.g}}, options);
  EXPECT_NE(text.find("func.func @kernel_a("), std::string::npos);
  EXPECT_NE(text.find("scf.for"), std::string::npos);
  EXPECT_NE(text.find("vector<16xf32>"), std::string::npos);
}

// No kernel at all is an object without symbols, not an error.
TEST(Sharing, NothingToCompile) { EXPECT_TRUE(Library({}).ok()); }

} // namespace mgc::rowgen::test
