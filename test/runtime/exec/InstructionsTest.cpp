// Each kind of instruction, executed by the engine, against its definition in plan/Plan.h.
#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "test/runtime/exec/HandMadePlans.h"
#include "test/runtime/kernels/AttentionReference.h"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>

namespace mgc::test {
namespace {

// Runs one program, once, on every rank of a mesh of one stage; segment i has bytes[i] bytes at offset(i).
class OneProgram {
public:
  OneProgram(const std::vector<plan::Axis> &axes, const ProgramBuilder &program, int64_t instance = 0)
      : plan_(emptyPlan(axes)) {
    plan::StagePlan &stage = plan_.stages[0];
    StageLayout layout(stage);
    for (int64_t bytes : program.program.segmentBytes)
      offsets_.push_back(layout.place("activations", bytes));
    layout.finish();
    const int64_t chunk = addChunk(plan_, 0, plan::Task::forward, program, offsets_);
    stage.chunks[chunk].calls[0].instance = instance;
    stage.schedule = {runStep(chunk, 0)};
  }
  void load(EngineOptions options = {}) { engine_ = makeEngine(plan_, std::move(options)); }
  std::string loadError() const { // "": none
    const std::string bundle = std::filesystem::path(testKernels()).parent_path();
    const Result<std::unique_ptr<Engine>> engine = Engine::create(plan_, bundle);
    return engine.isOk() ? "" : engine.status().message();
  }
  void run() {
    Result<StepResult> result = engine_->step(0, makeBatch(plan_, 0), StepScalars{});
    ASSERT_TRUE(result.isOk()) << result.status().message();
  }
  template <typename T> T *segment(int64_t rank, int64_t index) { return inArena<T>(*engine_, rank, offsets_[index]); }
  template <typename T = float> void set(int64_t rank, int64_t index, const std::vector<T> &values) {
    std::copy(values.begin(), values.end(), segment<T>(rank, index));
  }
  std::vector<float> get(int64_t rank, int64_t index, int64_t count) {
    return {segment<float>(rank, index), segment<float>(rank, index) + count};
  }
  const plan::Mesh &mesh() const { return plan_.mesh; }

private:
  plan::Plan plan_;
  std::vector<int64_t> offsets_;
  std::unique_ptr<Engine> engine_;
};

std::vector<float> counting(int64_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Instructions, gemmThenAllReduceIsTheWholeProduct) { // k split over tp
  constexpr int64_t m = 3, n = 5, k = 4;                 // k: of one rank
  const plan::Gemm gemm{.m = m, .n = n, .k = k, .transposeB = true};
  const plan::Collective sum{.axes = {"tp"}, .chunk = m * n};
  OneProgram program({{"tp", 2}},
                     ProgramBuilder("p", {m * k * 4, n * k * 4, m * n * 4}).add(gemm, {0, 1, 2}).add(sum, {2, 2}));
  program.load();
  const auto a = [](int64_t i, int64_t p) { return static_cast<float>(i * 3 - p); };
  const auto b = [](int64_t j, int64_t p) { return static_cast<float>(j + p % 3); };
  for (int64_t rank : {0, 1})
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < m; ++i)
        program.segment<float>(rank, 0)[i * k + p] = a(i, rank * k + p);
      for (int64_t j = 0; j < n; ++j)
        program.segment<float>(rank, 1)[j * k + p] = b(j, rank * k + p);
    }
  program.run();
  for (int64_t rank : {0, 1})
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float expected = 0;
        for (int64_t p = 0; p < 2 * k; ++p)
          expected += a(i, p) * b(j, p);
        EXPECT_EQ(program.segment<float>(rank, 2)[i * n + j], expected);
      }
}

// Gathered over (y, x), major first, though x is the outer axis of the mesh.
TEST(Instructions, groupsFollowTheOrderOfTheAxes) {
  const plan::Collective gather{.kind = plan::Collective::Kind::allGather, .axes = {"y", "x"}, .chunk = 2};
  OneProgram program({{"x", 2}, {"y", 3}}, ProgramBuilder("p", {8, 48}).add(gather, {0, 1}));
  program.load();
  for (int64_t rank = 0; rank < 6; ++rank)
    program.set(rank, 0, {static_cast<float>(rank), -static_cast<float>(rank)});
  program.run();
  for (int64_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(program.get(rank, 1, 12), (std::vector<float>{0, 0, 3, -3, 1, -1, 4, -4, 2, -2, 5, -5}));
}

TEST(Instructions, sliceTakesThePartOfTheCoordinate) {
  const plan::Move slice{.kind = plan::Move::Kind::slice, .outer = 2, .chunkBytes = 8, .axes = {"y"}};
  OneProgram program({{"x", 2}, {"y", 3}}, ProgramBuilder("p", {48, 16}).add(slice, {0, 1}));
  program.load();
  for (int64_t rank = 0; rank < 6; ++rank)
    program.set(rank, 0, counting(12, 0));
  program.run();
  for (int64_t rank = 0; rank < 6; ++rank) {
    const auto y = static_cast<float>(rank % 3);
    EXPECT_EQ(program.get(rank, 1, 4), (std::vector<float>{2 * y, 2 * y + 1, 6 + 2 * y, 7 + 2 * y}));
  }
}

TEST(Instructions, copyFillAndDemote) {
  const plan::Move copy = copyOf(12), fill = fillOf(12),
                   demote{.kind = plan::Move::Kind::demote, .bytes = 12, .axes = {"y"}};
  OneProgram program(
      {{"x", 2}, {"y", 2}},
      ProgramBuilder("p", {16, 16, 16, 16}).add(copy, {0, 1}).add(fill, {2}).add(demote, {0, 3}).add(demote, {0, 0}));
  program.load();
  for (int64_t rank = 0; rank < 4; ++rank) {
    program.set(rank, 0, {1, 2, 3, 9});
    for (int64_t index : {1, 2, 3})
      program.set(rank, index, {5, 5, 5, 5});
  }
  program.run();
  for (int64_t rank = 0; rank < 4; ++rank) {
    const bool first = rank % 2 == 0;
    EXPECT_EQ(program.get(rank, 0, 4), first ? std::vector<float>({1, 2, 3, 9}) : std::vector<float>({0, 0, 0, 9}));
    EXPECT_EQ(program.get(rank, 1, 4), (std::vector<float>{1, 2, 3, 5}));
    EXPECT_EQ(program.get(rank, 2, 4), (std::vector<float>{0, 0, 0, 5}));
    EXPECT_EQ(program.get(rank, 3, 4), first ? std::vector<float>({1, 2, 3, 5}) : std::vector<float>({0, 0, 0, 5}));
  }
}

TEST(Instructions, scalarsAreThoseOfTheRankTheCallAndTheRun) {
  plan::RowKernel show = rowKernel("showScalars", 1, {5, 100, 0, 0, 7});
  show.scalars[1].terms = {{{"x"}, 10}, {{"y"}, 1}};
  show.scalars[2].kind = plan::Scalar::Kind::instance;
  show.scalars[3].kind = plan::Scalar::Kind::seed;
  OneProgram program({{"x", 2}, {"y", 3}}, ProgramBuilder("p", {64}).add(show, {0}), 42);
  program.load({.seed = 99});
  program.run();
  for (int64_t rank = 0; rank < 6; ++rank) {
    const auto *seen = program.segment<int32_t>(rank, 0);
    const auto coordinates = static_cast<int32_t>(100 + 10 * (rank / 3) + rank % 3);
    EXPECT_EQ(std::vector<int32_t>(seen, seen + 5), (std::vector<int32_t>{5, coordinates, 42, 99, 7}));
  }
}

template <typename T> int64_t bytesOf(const std::vector<T> &values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

// Forward and backward against the library call itself, so that operands and scalars are known to arrive
// where they belong.
TEST(Instructions, attentionGetsItsOperandsAndScalars) {
  for (double dropout : {0.0, 0.3}) {
    plan::Attention attention{
        .s = 6, .t = 6, .b = 2, .g = 2, .r = 2, .d = 8, .dropout = dropout, .site = 5, .groupStride = 2};
    attention.seed.kind = plan::Scalar::Kind::seed;
    attention.instance.kind = plan::Scalar::Kind::instance;
    attention.headOffset.value = 3;
    attention.headOffset.terms = {{{"tp"}, 4}};
    AttentionProblem direct(attention);
    attention = direct.a;
    plan::Attention backward = attention;
    backward.backward = true;
    attention.workspaceBytes = attentionWorkspaceBytes(attention);
    backward.workspaceBytes = attentionWorkspaceBytes(backward);
    const int64_t workspace = std::max(attention.workspaceBytes, backward.workspaceBytes);
    const int64_t lse = attention.s * attention.b * attention.g * attention.r * 4;
    // segments: q k v do queryPositions keyPositions samples o lse dq dk dv workspace
    ProgramBuilder builder("p", {bytesOf(direct.q), bytesOf(direct.k), bytesOf(direct.v), bytesOf(direct.q),
                                 bytesOf(direct.queryPositions), bytesOf(direct.keyPositions), bytesOf(direct.samples),
                                 bytesOf(direct.q), lse, bytesOf(direct.q), bytesOf(direct.k), bytesOf(direct.v),
                                 workspace});
    if (dropout > 0)
      builder.add(attention, {0, 1, 2, 4, 5, 6, 7, 8, 12}).add(backward, {0, 1, 2, 7, 8, 3, 4, 5, 6, 9, 10, 11, 12});
    else
      builder.add(attention, {0, 1, 2, 4, 5, 7, 8, 12}).add(backward, {0, 1, 2, 7, 8, 3, 4, 5, 9, 10, 11, 12});
    OneProgram program({{"tp", 2}}, builder, 17);
    program.load({.seed = 99});
    for (int64_t rank : {0, 1}) {
      program.set(rank, 0, direct.q), program.set(rank, 1, direct.k), program.set(rank, 2, direct.v);
      program.set(rank, 3, direct.outputGradient), program.set(rank, 4, direct.queryPositions);
      program.set(rank, 5, direct.keyPositions), program.set(rank, 6, direct.samples);
    }
    program.run();
    for (int64_t rank : {0, 1}) {
      direct.resolve(99, 17, 3 + 4 * rank);
      direct.run(1);
      const auto same = [&](int64_t segment, const std::vector<float> &expected) {
        return std::memcmp(program.segment<float>(rank, segment), expected.data(), bytesOf(expected)) == 0;
      };
      const std::vector<float> *results[] = {&direct.o, &direct.lse, &direct.dq, &direct.dk, &direct.dv};
      for (int64_t i = 0; i < 5; ++i)
        EXPECT_TRUE(same(7 + i, *results[i])) << rank << " " << i;
    }
  }
}

// A kernel writes what it needs: a plan that gives it less, or no whole vectors, is refused before it runs.
TEST(Instructions, attentionWorkspacesThatDoNotFitAreRefused) {
  plan::Attention attention{.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 4};
  attention.workspaceBytes = attentionWorkspaceBytes(attention);
  const auto messageOf = [](const plan::Attention &a, int64_t workspaceOffset) {
    const int64_t bytes = attentionWorkspaceBytes(a) + workspaceOffset;
    ProgramBuilder builder("p", {64, 64, 64, 16, 16, 64, 16, bytes});
    builder.add(a, {0, 1, 2, 3, 4, 5, 6, 7});
    builder.program.instructions[0].operands[7].offset = workspaceOffset;
    OneProgram program({}, builder);
    return program.loadError();
  };
  EXPECT_EQ(messageOf(attention, 0), "");
  EXPECT_NE(messageOf(attention, 4).find("the workspace lies at"), std::string::npos);
  --attention.workspaceBytes;
  EXPECT_NE(messageOf(attention, 0).find("expected at least"), std::string::npos);
}

} // namespace
} // namespace mgc::test
