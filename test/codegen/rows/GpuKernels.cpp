// Features that only GPU kernels have: forms by size, more rows and columns than one block, tables shared by warps.
#include "codegen/rows/gpu/GpuShape.h"
#include "codegen/rows/graph/RowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "test/codegen/rows/Harness.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace mgc::rowgen::test {

struct Norm {
  RowGraph g;
  Norm(int64_t rows, int64_t h, Element element) {
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(element, Access::in, {R, H}));
    Node w = g.load(g.addOperand(element, Access::in, {H}));
    Node mean = scale(g, g.reduce(RowReduction::sum, mul(g, x, x)), 1.0 / double(h));
    g.store(g.addOperand(element, Access::out, {R, H}), mul(g, mul(g, x, rsqrt(g, shift(g, mean, 1e-5))), w));
  }
};

static GpuShape shapeOf(const RowGraph &graph) { return GpuShape::of(LoopLayout(graph)); }

TEST(GpuShape, RowsStayInRegistersWhereTheyFit) {
  GpuShape small = shapeOf(Norm(8192, 128, Element::bf16).g); // a head: half a warp
  EXPECT_EQ(small.width, 8);
  EXPECT_EQ(small.lanes, 16);
  EXPECT_EQ(small.blocks, 8192 * 16 / 256);
  EXPECT_TRUE(small.keeps);
  GpuShape llama = shapeOf(Norm(8192, 4096, Element::bf16).g);
  EXPECT_TRUE(llama.keeps);
  EXPECT_EQ(llama.lanes * llama.unroll * llama.width, 4096);
  EXPECT_EQ(llama.threads, llama.lanes);
  EXPECT_EQ(llama.blocks, 8192);
  GpuShape logits = shapeOf(Norm(512, 128256, Element::bf16).g);
  EXPECT_FALSE(logits.keeps);
  EXPECT_EQ(logits.threads, 1024); // two rows on each multiprocessor would not stay in the cache
  EXPECT_EQ(shapeOf(Norm(512, 50304, Element::bf16).g).threads, 512);
  EXPECT_EQ(shapeOf(Norm(512, 4096, Element::f32).g).width, 4);
  EXPECT_EQ(shapeOf(Norm(512, 4099, Element::f32).g).width, 1);
}

TEST(GpuShape, ColumnSumsHaveBlocksEnough) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 8192), H = g.addDim(DimKind::column, 4096);
  Node x = g.load(g.addOperand(Element::bf16, Access::in, {R, H}));
  g.storeSumOverRows(g.addOperand(Element::f32, Access::accumulate, {H}), x);
  GpuShape shape = shapeOf(g);
  EXPECT_GE(shape.blocks, 100);
  EXPECT_EQ(shape.width, 8);
  EXPECT_GE(shape.lanes * shape.width * 2, 32); // bytes of a row that a block reads
}

// Rows of a warp, of a block, and longer than registers; some do not fill their block.
TEST(GpuKernels, NormsOfAllForms) {
  struct Case {
    int64_t rows, h;
    Element element;
  };
  const std::vector<Case> cases = {{37, 8, Element::bf16},    {37, 128, Element::bf16}, {9, 1024, Element::bf16},
                                   {3, 4096, Element::bf16},  {3, 4096, Element::f32},  {2, 5000, Element::f32},
                                   {2, 40000, Element::bf16}, {2, 33001, Element::f32}, {5, 1001, Element::bf16}};
  std::vector<NamedGraph> graphs;
  for (size_t number = 0; number < cases.size(); ++number)
    graphs.push_back({fmt::format("k{}", number), Norm(cases[number].rows, cases[number].h, cases[number].element).g});
  Library library(graphs);
  for (size_t number = 0; number < cases.size(); ++number) {
    auto [rows, h, element] = cases[number];
    const bool isHalf = element == Element::bf16;
    std::vector<float> values = randomFloats(rows * h, 1), weights = randomFloats(h, 2);
    Buffer x = isHalf ? Buffer(toBf16(values)) : Buffer(values), w = isHalf ? Buffer(toBf16(weights)) : Buffer(weights);
    Buffer y = isHalf ? Buffer(std::vector<uint16_t>(rows * h)) : Buffer(size_t(rows * h));
    library.run(number, {&x, &w, &y});
    auto at = [&](Buffer &buffer, int64_t i) { return isHalf ? fromBf16(buffer.halves()[i]) : buffer[i]; };
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (int64_t k = 0; k < h; ++k)
        squares += std::pow(at(x, row * h + k), 2);
      for (int64_t k = 0; k < h; ++k) {
        double expected = at(x, row * h + k) / std::sqrt(squares / double(h) + 1e-5) * at(w, k);
        ASSERT_NEAR(at(y, row * h + k), expected, std::abs(expected) * (isHalf ? 0x1.01p-8 : 1e-5))
            << "case " << number << ", row " << row << ", column " << k;
      }
    }
  }
}

// More rows than the block's threads have at once, and columns that do not fill the last block.
TEST(GpuKernels, TallSums) {
  const int64_t rows = 3001, h = 328;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
  Node x = g.load(g.addOperand(Element::bf16, Access::in, {R, H}));
  g.storeSumOverRows(g.addOperand(Element::f32, Access::accumulate, {H}), x);
  g.storeSumOverRows(g.addOperand(Element::bf16, Access::out, {H}), mul(g, x, x));
  std::vector<uint16_t> values = toBf16(randomFloats(rows * h, 1));
  Buffer x0(values), sum(h, 3), squares = Buffer(std::vector<uint16_t>(h));
  runOne(g, {&x0, &sum, &squares});
  for (int64_t k = 0; k < h; ++k) {
    double expected = 3, expectedSquares = 0;
    for (int64_t row = 0; row < rows; ++row) {
      expected += fromBf16(values[row * h + k]);
      expectedSquares += std::pow(fromBf16(values[row * h + k]), 2);
    }
    ASSERT_NEAR(sum[k], expected, 1e-4) << k;
    ASSERT_NEAR(fromBf16(squares.halves()[k]), expectedSquares, expectedSquares * 0x1.01p-8) << k;
  }
}

// Sums in quarters are exact: each table's row must have every summand once. Beside the tables, a sum over all rows; and
// the same with what is stored in place of what is read, which one thread then does alone.
TEST(GpuKernels, TablesSharedByWarps) {
  const int64_t rows = 700, h = 264, first = 5, second = 300;
  for (bool inPlace : {false, true}) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::indexed, first), W = g.addDim(DimKind::indexed, second);
    Dim H = g.addDim(DimKind::column, h);
    Node i = g.load(g.addOperand(Element::i32, Access::in, {R})),
         j = g.load(g.addOperand(Element::i32, Access::in, {R}));
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    g.addAt(g.addOperand(Element::f32, Access::accumulate, {V, H}), {{V, i}}, x);
    g.addAt(g.addOperand(Element::f32, Access::accumulate, {W, H}), {{W, j}}, x);
    g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {H}), x);
    if (inPlace)
      g.store(g.addOperand(Element::f32, Access::out, {R, H}), add(g, x, x));
    EXPECT_EQ(shapeOf(g).parts.size(), inPlace ? 1u : 3u);
    std::vector<float> values;
    for (int32_t quarters : randomInts(rows * h, 1, -8, 8))
      values.push_back(float(quarters) / 4);
    Buffer is(randomInts(rows, 2, -1, int32_t(first))), js(randomInts(rows, 3, 0, int32_t(second) - 1));
    Buffer xs(values), a(first * h, 1), b(second * h, 2), sum(h);
    std::vector<Buffer *> buffers = {&is, &js, &xs, &a, &b, &sum};
    if (inPlace)
      buffers.push_back(&xs);
    runOne(g, buffers);
    std::vector<float> expectedA(first * h, 1), expectedB(second * h, 2), expectedSum(h);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < h; ++k) {
        float value = values[row * h + k];
        if (is.ints()[row] >= 0 && is.ints()[row] < first)
          expectedA[is.ints()[row] * h + k] += value;
        expectedB[js.ints()[row] * h + k] += value;
        expectedSum[k] += value;
        ASSERT_EQ(xs[row * h + k], inPlace ? 2 * value : value);
      }
    for (int64_t place = 0; place < second * h; ++place)
      ASSERT_EQ(b[place], expectedB[place]) << place;
    for (int64_t place = 0; place < first * h; ++place)
      ASSERT_EQ(a[place], expectedA[place]) << place;
    for (int64_t k = 0; k < h; ++k)
      ASSERT_EQ(sum[k], expectedSum[k]) << k;
  }
}

// Every thread of a row reads the label's logit, which one of them overwrites.
TEST(GpuKernels, PicksBeforeItOverwrites) {
  const int64_t rows = 6, v = 3000;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
  RowOperand logits = g.addOperand(Element::f32, Access::in, {R, V});
  Node x = g.load(logits), label = g.load(g.addOperand(Element::i32, Access::in, {R}));
  Node picked = g.load(logits, {{V, label}});
  g.store(g.addOperand(Element::f32, Access::out, {R, V}), sub(g, x, picked));
  Buffer values(randomFloats(rows * v, 1)), old = values, labels(randomInts(rows, 2, 0, int32_t(v) - 1));
  runOne(g, {&values, &labels, &values});
  for (int64_t i = 0; i < rows * v; ++i)
    ASSERT_EQ(values[i], old[i] - old[i / v * v + labels.ints()[i / v]]) << i;
}

// A library's function has no definition on a GPU.
TEST(GpuKernels, UnresolvedSymbols) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 4), H = g.addDim(DimKind::column, 8);
  Body tanh = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) -> mlir::Value {
    return mlir::math::TanhOp::create(b, loc, x[0]);
  };
  Node y = g.map("library_tanh", tanh, {g.load(g.addOperand(Element::f32, Access::in, {R, H}))});
  g.store(g.addOperand(Element::f32, Access::out, {R, H}), y);
  auto result = compileKernels({{"calls", g}}, PtxFile{plan::KernelLevel::sm80, ::testing::TempDir() + "/never.ptx"});
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message().find("kernel calls: map 'library_tanh' calls __nv_tanhf, which nothing defines"),
            0u)
      << result.status().message();
}

static std::string ptxOf(const RowGraph &graph) {
  const std::string path = ::testing::TempDir() + "/text.ptx";
  auto result = compileKernels({{"k", graph}}, PtxFile{plan::KernelLevel::sm90, path});
  EXPECT_TRUE(result.isOk()) << result.status().message();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The text says how each result is rounded, as if each op were a kernel: ptxas may fuse a product and a sum that have no .rn.
TEST(GpuKernels, RoundingIsNotLeftToTheDriver) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 4), H = g.addDim(DimKind::column, 8);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
  Node square = mul(g, x, x), sum = g.reduce(RowReduction::sum, square);
  g.store(g.addOperand(Element::f32, Access::out, {R, H}), sub(g, square, mul(g, sum, shift(g, square, 1))));
  const std::string text = ptxOf(g);
  for (const char *left : {"add.f32", "sub.f32", "mul.f32"})
    EXPECT_EQ(text.find(left), std::string::npos) << left << " in\n" << text;
  EXPECT_NE(text.find("add.rn.f32"), std::string::npos);
  EXPECT_NE(text.find("mul.rn.f32"), std::string::npos);
  EXPECT_EQ(text.find("fma"), std::string::npos);
}

// The unit for 2^x, and no polynomial: one bounded multiply-add and three more.
TEST(GpuKernels, ExpIsAnInstruction) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 64), H = g.addDim(DimKind::column, 1);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
  g.store(g.addOperand(Element::f32, Access::out, {R, H}), exp(g, x));
  const std::string text = ptxOf(g);
  auto count = [&](const std::string &what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  const size_t exps = count("ex2.approx.ftz.f32");
  EXPECT_GE(exps, 1u);
  EXPECT_EQ(count("fma.rn.sat.f32"), exps);
  EXPECT_EQ(count("fma.rn.f32"), 3 * exps);
  EXPECT_EQ(count("setp.lt.f32") + count("setp.gt.f32"), 0u);
}

// The maximum is the last element of the last step, of a whole one, and the first of the last.
TEST(GpuKernels, MaximumPassesOverNaN) {
  const int64_t rows = 3, v = 40000;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
  Node x = g.load(g.addOperand(Element::bf16, Access::in, {R, V}));
  g.store(g.addOperand(Element::f32, Access::out, {R}), g.reduce(RowReduction::max, x));
  std::vector<float> values = randomFloats(rows * v, 1, -8, 8);
  for (int64_t row = 0; row < rows; ++row) {
    values[row * v] = values[row * v + v / 2] = NAN;
    values[row * v + 17] = -INFINITY;
  }
  values[v - 1] = 9, values[v + 4096 * 8 - 1] = 9, values[2 * v + 4096 * 8] = 9;
  Buffer xs(toBf16(values)), y(rows);
  runOne(g, {&xs, &y});
  for (int64_t row = 0; row < rows; ++row)
    EXPECT_EQ(y[row], 9) << row;
}

// GPUs differ in how much shared memory a block may ask for; 48 KiB are declared on all. 96 sums of f32 take as much.
TEST(GpuKernels, SharedMemoryIsWhatEveryGpuHas) {
  const auto compile = [](int sums) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, 64), H = g.addDim(DimKind::column, 8);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    for (int sum = 0; sum < sums; ++sum)
      g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {H}), scale(g, x, sum + 2));
    const PtxFile file{plan::KernelLevel::sm80, ::testing::TempDir() + "/shared.ptx"};
    return compileKernels({{"sums", g}}, file);
  };
  EXPECT_TRUE(compile(96).isOk());
  const auto refused = compile(97);
  ASSERT_FALSE(refused.isOk());
  EXPECT_NE(refused.status().message().find("kernel sums: its sums over rows need 49664 bytes of shared memory of a "
                                            "block; expected at most 49152, which every GPU has"),
            std::string::npos)
      << refused.status().message();
}

TEST(GpuKernels, NothingToCompile) { EXPECT_TRUE(Library({}).ok()); }

// Several modules, one text.
TEST(GpuKernels, PrintsTheKernels) {
  std::vector<NamedGraph> graphs;
  for (int64_t h = 1; h <= 12; ++h)
    graphs.push_back({fmt::format("norm{}", h), Norm(4, h, Element::bf16).g});
  std::string text;
  CompileOptions options;
  options.printed = &text;
  EXPECT_TRUE(Library(graphs, options).ok());
  EXPECT_NE(text.find("gpu.func @norm7("), std::string::npos);
  EXPECT_NE(text.find("gpu.shuffle"), std::string::npos);
}

} // namespace mgc::rowgen::test
