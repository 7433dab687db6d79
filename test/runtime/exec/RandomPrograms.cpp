#include "test/runtime/exec/RandomPrograms.h"

#include <gtest/gtest.h>
#include <random>

namespace mgc::test {

namespace {

using Kind = plan::Collective::Kind;

constexpr int64_t kBytes = kScalarsBytes, kBuffers = 6; // size of a buffer: as many as step scalars

// Two rows of each rank, of the experts of two ranks: either all rows are of the first, or each has one. In the segments behind the
// results: numbers of experts for both, counts of a rank, of all ranks, sources and places.
constexpr int64_t kRows = 2, kWidth = 2;
constexpr int64_t kAllOfFirst = kBuffers + 1, kOneOfEach = kBuffers + 2, kCounts = kBuffers + 3,
                  kAllCounts = kBuffers + 4, kSources = kBuffers + 5, kPlaces = kBuffers + 6, kSegments = kBuffers + 7;
constexpr int64_t kRowNumbersBytes = kRows * 4, kAllCountsBytes = 2 * kRowNumbersBytes;

// Segments: buffers, results, and those of rows.
class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {
    program_.add(fillOf(kRowNumbersBytes), {kAllOfFirst});
    addCounts(kAllOfFirst, kOneOfEach); // the places of its rows are 0 and 1
    for (int64_t i = 0; i < 40; ++i)
      addAny();
    plan::Collective last = collective(Kind::allReduce);
    last.reduce = plan::ReduceKind::max; // the ranks agree
    add(last, below(kBuffers), kBuffers);
  }
  const ProgramBuilder &program() const { return program_; }

private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_()) % limit; }
  void add(decltype(plan::Instruction::body) body, int64_t from, int64_t to) { program_.add(body, {from, to}); }

  static plan::Collective collective(Kind kind) {
    return {.kind = kind, .axes = {"tp"}, .chunk = kBytes / 4 / (kind == Kind::allReduce ? 1 : 2)};
  }

  void addProduct(int64_t from, int64_t to) {
    const int64_t other = (to + 1 + below(kBuffers - 1)) % kBuffers;
    if (products_++ < kMostProducts)
      program_.add(plan::Gemm{.m = 2, .n = 2, .k = 2, .accumulate = below(2) == 0}, {from, other, to});
  }

  void addCounts(int64_t numbers, int64_t places) {
    program_.add(plan::GroupRows{.groups = 2, .rows = kRows, .places = kRows}, {numbers, kCounts, places, kSources});
    plan::Collective gather = collective(Kind::allGather);
    gather.type = plan::DType::i32;
    gather.chunk = kRows;
    add(gather, kCounts, kAllCounts);
  }

  // Half of a buffer has a rank's rows, all of it those of its expert.
  void addExchange(int64_t from, int64_t to) {
    plan::ExchangeRows exchange{
        .back = below(2) == 0, .groups = 1, .rows = kRows, .places = 2 * kRows, .width = kWidth, .axes = {"tp"}};
    program_.add(exchange, {kAllCounts, from, to});
  }

  void addAny() {
    const int64_t from = below(kBuffers), to = (from + 1 + below(kBuffers - 1)) % kBuffers;
    switch (below(10)) {
    case 0:
      return add(collective(Kind::allReduce), from, below(2) == 0 ? from : to);
    case 1:
      return add(collective(Kind::allGather), from, to);
    case 2:
      return add(collective(Kind::reduceScatter), from, to);
    case 3:
      return add(plan::Move{.kind = plan::Move::Kind::demote, .bytes = kBytes, .axes = {"tp"}}, from, to);
    case 4:
      return addProduct(from, to);
    case 5:
    case 6:
      return addExchange(from, to);
    case 7:
      return addCounts(below(2) == 0 ? kAllOfFirst : kOneOfEach, kPlaces);
    default:
      return add(copyOf(kBytes), from, to);
    }
  }

  static constexpr int64_t kMostProducts = 2; // squares of squares stay finite
  int64_t products_ = 0;
  std::mt19937 random_;
  static std::vector<int64_t> segments() {
    std::vector<int64_t> bytes(kSegments, kRowNumbersBytes);
    std::fill_n(bytes.begin(), kBuffers + 1, kBytes);
    bytes[kAllCounts] = kAllCountsBytes;
    return bytes;
  }
  ProgramBuilder program_{"work", segments()};
};

// A plan of two ranks for random programs. Each has buffers of its own, which begin as the step scalars and are slots of its chunk:
// bound elsewhere in each of the chunk's two runs.
class RandomPlan {
public:
  // Adds a chunk, whose result goes to `results`.
  int64_t add(plan::Task task, const ProgramBuilder &program, int64_t results) {
    std::vector<int64_t> bindings;
    const int64_t buffers = layout_.bytes();
    for (int64_t i = 0; i < kBuffers; ++i) {
      slots_.push_back(layout_.place("activations", kBytes));
      const int64_t ring = addRing(plan_, 0, buffers, kBytes, kBuffers);
      stage().rings[ring].stride = plan::aligned(kBytes);
      stage().rings[ring].turns = {{i, 1, 0}, {(i + 2) % kBuffers, 1, 0}};
      bindings.push_back(inRing(ring));
    }
    bindings.push_back(results);
    for (int64_t segment = kBuffers + 1; segment < kSegments; ++segment)
      bindings.push_back(layout_.place("frame", kAllCountsBytes));
    return addChunk(plan_, 0, task, program, bindings);
  }
  // A chunk that fills all buffers.
  int64_t addBegin() {
    const auto count = std::ssize(slots_);
    ProgramBuilder begin("begin", std::vector<int64_t>(count + 1, kBytes));
    for (int64_t i = 0; i < count; ++i)
      begin.add(copyOf(kBytes), {count, i});
    slots_.push_back(stage().stepScalarsOffset);
    return addChunk(plan_, 0, plan::Task::begin, begin, slots_);
  }
  int64_t place() { return layout_.place("frame", kBytes); }
  plan::StagePlan &stage() { return plan_.stages[0]; }
  plan::Plan finish() {
    layout_.finish();
    return std::move(plan_);
  }

private:
  plan::Plan plan_ = emptyPlan({{"tp", 2}}, {.microbatches = 2});
  StageLayout layout_{stage()};
  std::vector<int64_t> slots_;
};

plan::Collective sumOver(const char *axis) { return {.axes = {axis}, .chunk = kBytes / 4}; }

} // namespace

plan::Plan randomPlan(uint32_t seed) {
  RandomPlan plan;
  const int64_t work = plan.add(plan::Task::forward, RandomProgram(seed).program(), plan.stage().resultsOffset);
  const int64_t first = plan.addBegin();
  plan.stage().schedule = {runStep(first), runStep(work, 0), runStep(work, 1)};
  return plan.finish();
}

plan::Plan randomPairPlan(uint32_t seed) {
  RandomPlan plan;
  const int64_t forwardResult = plan.place(), backwardResult = plan.place();
  const int64_t forward = plan.add(plan::Task::forward, RandomProgram(2 * seed).program(), forwardResult),
                backward = plan.add(plan::Task::backward, RandomProgram(2 * seed + 1).program(), backwardResult);
  const int64_t first = plan.addBegin();
  ProgramBuilder reduce("reduce", {kBytes, kBytes, kBytes});
  reduce.add(copyOf(kBytes), {0, 2}).add(copyOf(4), {1, 2});
  plan::Plan made = plan.finish();
  const int64_t last =
      addChunk(made, 0, plan::Task::reduce, reduce, {forwardResult, backwardResult, made.stages[0].resultsOffset});
  made.stages[0].schedule = {runStep(first),       runStep(forward, 0),  runStep(forward, 1),
                             runStep(backward, 0), runStep(backward, 1), runStep(last)};
  made.stages[0].schedule[3].paired = true;
  return made;
}

plan::Plan sumAndProductPlan() {
  plan::Plan plan = emptyPlan({{"tp", 2}}, {.microbatches = 1});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t a = layout.place("activations", kBytes), b = layout.place("activations", kBytes),
                c = layout.place("activations", kBytes);
  layout.finish();
  ProgramBuilder work("work", {kBytes, kBytes, kBytes, kBytes, kBytes});
  work.add(copyOf(kBytes), {0, 2})
      .add(copyOf(kBytes), {0, 3})
      .add(sumOver("tp"), {2, 2})
      .add(plan::Gemm{.m = 2, .n = 2, .k = 2}, {0, 3, 4})
      .add(copyOf(16), {4, 3})
      .add(copyOf(kBytes), {2, 1});
  const int64_t chunk =
      addChunk(plan, 0, plan::Task::forward, work, {stage.stepScalarsOffset, stage.resultsOffset, a, b, c});
  stage.schedule = {runStep(chunk, 0)};
  return plan;
}

plan::Plan concurrentGradientsPlan() {
  plan::Plan plan = emptyPlan({{"dp", 2}}, {.microbatches = 2});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t a = layout.place("activations", kBytes), b = layout.place("activations", kBytes);
  layout.finish();
  const auto chunkOf = [&](plan::Task task, const ProgramBuilder &program, const std::vector<int64_t> &at) {
    return addChunk(plan, 0, task, program, at);
  };
  const int64_t begin = chunkOf(plan::Task::begin, copyingProgram("begin"), {stage.stepScalarsOffset, a});
  const int64_t gradients =
      chunkOf(plan::Task::gradients, ProgramBuilder("gradients", {kBytes}).add(sumOver("dp"), {0, 0}), {a});
  const int64_t forward =
      chunkOf(plan::Task::forward, copyingProgram("forward").add(copyOf(kBytes), {0, 1}), {stage.stepScalarsOffset, b});
  const int64_t reduce = chunkOf(plan::Task::reduce, copyingProgram("reduce"), {a, stage.resultsOffset});
  stage.schedule = {runStep(begin), runStep(forward, 0), runStep(gradients, -1, {2}), runStep(forward, 1),
                    runStep(reduce, -1, {2})};
  return plan;
}

ProgramBuilder copyingProgram(const std::string &name) {
  return ProgramBuilder(name, {kBytes, kBytes}).add(copyOf(kBytes), {0, 1});
}

std::array<double, 3> valuesOf(Engine &engine) {
  const Result<StepResult> result = engine.step(0, makeBatch(engine.plan(), 0), StepScalars{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? std::array{result->loss, result->tokens, result->gradientNorm} : std::array<double, 3>{};
}

} // namespace mgc::test
