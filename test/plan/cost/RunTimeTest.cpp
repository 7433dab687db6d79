// The time of runs of chunks on the machine of small numbers: what a call leaves in progress, units, and random runs against an order of
// joins that is found at once.
#include "plan/cost/RunTime.h"

#include "test/plan/SmallPlan.h"
#include "test/plan/cost/ToyMachine.h"
#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using namespace mgc::cost;
using plan::Collective;
using plan::Gemm;
using plan::Move;
using plan::Target;

namespace {

constexpr auto kTensor = size_t(plan::AxisRole::tensor), kData = size_t(plan::AxisRole::data);
constexpr double kProduct = 13.8, kReduce = 23; // seconds of those below

// A product in the frame, which is segment 0.
plan::Instruction product(int64_t offset = 0) {
  return {Gemm{.m = 4, .n = 8, .k = 9}, {{0, offset}, {0, offset + 256}, {0, offset + 1024}}, "product"};
}
plan::Instruction reduce(int64_t segment) {
  return {Collective{.axes = {"tp"}, .chunk = 16}, {{segment, 0}, {segment, 0}}, "reduce"};
}
// Over 2 data ranks, of 2 nodes.
plan::Instruction gather() {
  return {Collective{.kind = Collective::Kind::allGather, .axes = {"dp"}, .chunk = 8}, {{0, 0}, {1, 0}}, "gather"};
}
plan::Instruction copyOf(int64_t segment) { return {Move{.bytes = 8}, {{segment, 0}, {2, 0}}, "copy"}; }

plan::Program programOf(std::vector<plan::Instruction> instructions) {
  plan::Program program;
  program.segmentBytes = {2048, 64, 8};
  program.instructions = std::move(instructions);
  return program;
}

// --- Collectives that a call leaves in progress --------------------------------------------------------------------------------

// A layer's product, and a reduction of what segment 1 has; then another, whose copy reads what its segment 1 has.
class Layers {
public:
  explicit Layers(Target target = Target::cuda) {
    plan_ = plan::makeSmallPlan();
    plan_.target = target;
    plan_.programs = {programOf({product(), reduce(1)}), programOf({product(), copyOf(1)})};
    chunk_.task = plan::Task::backward;
  }
  // Two calls whose segments 1 begin there, with frames that begin at 0 and there.
  ProgramTime timeOf(int64_t reduced, int64_t read, int64_t frame = 4096, const SoftwareStack &stack = ownStack()) {
    chunk_.calls = {{0, 0, 0, {{-1, 0}, {-1, reduced}, {-1, 8192}}}, {1, 0, 0, {{-1, frame}, {-1, read}, {-1, 8200}}}};
    return RunTimes({machine_, plan_.mesh, plan_.target, stack}, plan_).secondsOf(plan_.stages[0], chunk_).all();
  }
  plan::Chunk chunk_;
  plan::Plan plan_;

private:
  const Machine machine_ = makeToyMachine();
};

TEST(RunTime, TheNextCallHidesWhatACallLeaves) {
  const ProgramTime time = Layers().timeOf(9000, 9000);
  EXPECT_DOUBLE_EQ(time.products, 2 * kProduct);
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], kProduct);
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], kReduce - kProduct);
}
// Where the second's frame has the bytes that are reduced, its product waits.
TEST(RunTime, ACallThatTouchesItsBytesWaits) {
  const ProgramTime time = Layers().timeOf(4096 + 1024, 9000);
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], 0);
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], kReduce);
}
TEST(RunTime, TheEndOfARunWaits) {
  const ProgramTime time = Layers().timeOf(9000, 9100);
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], kReduce - kProduct) << "no call reads it";
  Layers alone;
  alone.plan_.programs[1].instructions.clear();
  EXPECT_DOUBLE_EQ(alone.timeOf(9000, 9000).exposed[kTensor], kReduce);
}
// A call of the task gradients is a run.
TEST(RunTime, EachCallOfGradientsIsARun) {
  Layers layers;
  layers.chunk_.task = plan::Task::gradients;
  EXPECT_DOUBLE_EQ(layers.timeOf(9000, 9000).exposed[kTensor], kReduce);
}
TEST(RunTime, NothingIsLeftOnCpusOrWhereCollectivesWait) {
  SoftwareStack waits;
  waits.overlap.tensor = Overlap::waits;
  EXPECT_DOUBLE_EQ(Layers(Target::cpu).timeOf(9000, 9000).exposed[kTensor], kReduce);
  EXPECT_DOUBLE_EQ(Layers().timeOf(9000, 9000, 4096, waits).exposed[kTensor], kReduce);
}
// A repeat's calls are strides apart: the reduction of one is hidden by the next, the last one's is not.
TEST(RunTime, IterationsOfARepeatAreApart) {
  Layers layers;
  plan::Call call{0, 0, 1, {{-1, 0}, {-1, 9000, 64}, {-1, 8192}}};
  layers.chunk_.repeats = {{0, 1, 5}};
  const auto time = [&](int64_t stride) {
    call.segments[1].stride = stride;
    layers.chunk_.calls = {call};
    const Machine machine = makeToyMachine();
    return RunTimes({machine, layers.plan_.mesh, Target::cuda}, layers.plan_)
        .secondsOf(layers.plan_.stages[0], layers.chunk_)
        .all();
  };
  EXPECT_DOUBLE_EQ(time(64).products, 5 * kProduct);
  EXPECT_DOUBLE_EQ(time(64).hidden[kTensor], 4 * kProduct);
  EXPECT_DOUBLE_EQ(time(64).exposed[kTensor], 5 * kReduce - 4 * kProduct);
}
// The host needs 20 s for a kernel, 40 for a call: the device waits 26.2 s at the end of the first, and the reduction goes on.
TEST(RunTime, CollectivesGoOnWhileTheHostStartsKernels) {
  SoftwareStack slow;
  slow.kernel = 20;
  const ProgramTime time = Layers().timeOf(9000, 9000, 4096, slow);
  EXPECT_DOUBLE_EQ(time.seconds(), 80);
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], kReduce);
}

// Two gathers in slices, one in each call: of each all but one of two slices goes along with the product of the next that takes it.
TEST(RunTime, TheNextCallTakesAGatherInSlices) {
  SoftwareStack sliced;
  sliced.overlap.tensor = Overlap::sliced;
  const auto gatherTo = [](int64_t segment) {
    return plan::Instruction{
        Collective{.kind = Collective::Kind::allGather, .axes = {"tp"}, .chunk = 8}, {{0, 0}, {segment, 0}}, "gather"};
  };
  plan::Instruction takes = product();
  takes.operands[1] = {1, 0};
  Layers layers;
  layers.plan_.programs = {programOf({gatherTo(1)}), programOf({gatherTo(2), takes})};
  for (plan::Program &program : layers.plan_.programs)
    program.segmentBytes = {2048, 512, 512};
  const ProgramTime time = layers.timeOf(20000, 20000, 4096, sliced);
  const double all = time.hidden[kTensor] + time.exposed[kTensor];
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], all / 4) << "nothing takes the second";
  EXPECT_DOUBLE_EQ(layers.timeOf(20000, 30000, 4096, sliced).hidden[kTensor], 0);
}

// --- Units -------------------------------------------------------------------------------------------------------

// Two layers, whose values are gathered at 0 and at 64 of slices behind them: in the order of use, or the second ahead of the first.
// A layer has a reduction of its own in front of its last product.
class UnitLayers {
public:
  explicit UnitLayers(bool ahead) {
    plan_ = plan::makeSmallPlan();
    plan_.target = Target::cuda;
    plan::Program gathers{.name = "gather", .segments = {"slice", "values"}, .segmentBytes = {32, 64}};
    gathers.instructions = {gather()};
    plan::Program layer{
        .name = "layer", .segments = {"frame", "values", "x"}, .segmentBytes = {2048, 64, 64}, .frame = 0};
    layer.instructions = {copyOf(1), product(), reduce(2), product()};
    plan_.programs = {gathers, layer};
    plan::StagePlan &stage = plan_.stages[0];
    stage.regions = {{"units", 0, 128}, {"parameters", 128, 64}, {"frame", 4096, 2048}};
    stage.rings = {{.name = "x", .bytes = 64, .offset = 8192}};
    chunk_.task = plan::Task::forward;
    chunk_.slots = {0};
    const auto gatherOf = [](int64_t number) {
      return plan::Call{0, number, 0, {{-1, 128 + 32 * number}, {-1, 64 * number}}};
    };
    const auto layerOf = [](int64_t number) {
      return plan::Call{1, number, 0, {{-1, 4096}, {-1, 64 * number}, {0, 0}}};
    };
    chunk_.calls = {gatherOf(0), gatherOf(1), layerOf(0), layerOf(1)};
    if (!ahead)
      std::swap(chunk_.calls[1], chunk_.calls[2]);
  }
  // `taken`: of 4 units, by gathers.
  RunTime time(const SoftwareStack &stack = ownStack(), int64_t taken = 0) {
    Machine machine = makeToyMachine();
    machine.products.units = 4;
    machine.links[1].units = taken;
    return RunTimes({machine, plan_.mesh, plan_.target, stack}, plan_).secondsOf(plan_.stages[0], chunk_);
  }
  plan::Plan plan_;
  plan::Chunk chunk_;
};

double gatherSeconds() {
  const Machine machine = makeToyMachine();
  const plan::Plan plan = plan::makeSmallPlan();
  return secondsOf({machine, plan.mesh, Target::cpu}, programOf({gather()})).exposed[kData];
}

// The first gather is waited for; then of the second all that the layer's own reduction leaves of its products.
TEST(RunTime, ALayerHidesTheGatherOfTheNext) {
  const RunTime time = UnitLayers(true).time();
  EXPECT_DOUBLE_EQ(time.layers.hidden[kTensor], 2 * kProduct);
  EXPECT_DOUBLE_EQ(time.units.hidden[kData], std::min(gatherSeconds(), kProduct));
  EXPECT_DOUBLE_EQ(time.units.exposed[kData] + time.units.hidden[kData], 2 * gatherSeconds());
  EXPECT_EQ(time.units.compute(), 0);
}
TEST(RunTime, AUnitThatIsReadNextIsExposed) {
  EXPECT_DOUBLE_EQ(UnitLayers(false).time().units.exposed[kData], 2 * gatherSeconds());
}
TEST(RunTime, AStackWhoseUnitsWait) {
  SoftwareStack waits;
  waits.overlap.units = Overlap::waits;
  const RunTime time = UnitLayers(true).time(waits);
  EXPECT_DOUBLE_EQ(time.units.exposed[kData], 2 * gatherSeconds());
  EXPECT_DOUBLE_EQ(time.layers.hidden[kTensor], 2 * kProduct);
}
// A gather that takes one of 4 units makes the product beside it slower, but not where it waits.
TEST(RunTime, ProductsBesideUnitsAreSlower) {
  SoftwareStack waits;
  waits.overlap.units = Overlap::waits;
  UnitLayers layers(true);
  const RunTime free = layers.time(), taken = layers.time(ownStack(), 1);
  EXPECT_GT(taken.units.hidden[kData], free.units.hidden[kData]);
  EXPECT_DOUBLE_EQ(taken.layers.products, free.layers.products + taken.units.hidden[kData] / 4);
  EXPECT_DOUBLE_EQ(layers.time(waits, 1).layers.products, free.layers.products);
}
TEST(RunTime, OnCpusUnitsAreExposed) {
  UnitLayers layers(true);
  layers.plan_.target = Target::cpu;
  EXPECT_DOUBLE_EQ(layers.time().units.exposed[kData], 2 * gatherSeconds());
}

// --- Random runs ---------------------------------------------------------------------------------------------------

class RandomRun {
public:
  explicit RandomRun(uint32_t seed) : random_(seed) {
    plan_ = plan::makeSmallPlan();
    plan_.target = Target::cuda;
    plan_.programs.clear();
    for (int i = 0; i < 3; ++i)
      plan_.programs.push_back(program());
    plan_.stages[0].regions = {{"units", 0, 2048}, {"frame", 2048, 8192}};
    chunk_.task = plan::Task::forward;
    for (int64_t calls = 1 + below(6); calls > 0; --calls)
      chunk_.calls.push_back({below(3), 0, 0, {binding(), binding(), binding()}});
    if (below(2) == 0)
      chunk_.repeats = {{0, 1 + below(std::ssize(chunk_.calls)), 4}};
  }
  int64_t below(int64_t limit) { return int64_t(random_() % uint32_t(limit)); }

  SoftwareStack stack() {
    SoftwareStack stack;
    constexpr std::array kRules = {Overlap::waits, Overlap::follows, Overlap::follows};
    stack.overlap = {kRules[below(3)], kRules[below(3)], kRules[below(3)], kRules[below(3)]};
    stack.kernel = below(3) == 0 ? double(below(30)) : 0;
    return stack;
  }
  Machine machine() {
    Machine machine = makeToyMachine();
    machine.products.units = 4;
    for (LinkLevel &level : machine.links)
      level.units = below(3);
    return machine;
  }
  double seconds(const Machine &machine, const SoftwareStack &stack) const {
    return time(machine, stack).all().seconds();
  }
  RunTime time(const Machine &machine, const SoftwareStack &stack) const {
    return RunTimes({machine, plan_.mesh, plan_.target, stack}, plan_).secondsOf(plan_.stages[0], chunk_);
  }
  // Alone in a pair.
  RunTime timeByJoins(const Machine &machine, const SoftwareStack &stack) const {
    RunTimes runs({machine, plan_.mesh, plan_.target, stack}, plan_);
    return runs.secondsOfPair(plan_.stages[0], chunk_, {.task = plan::Task::backward});
  }

private:
  plan::Binding binding() { return {-1, 256 * below(40), below(2) == 0 ? 0 : 256}; }
  plan::Operand operand() { return {below(3), 64 * below(4)}; }
  plan::Program program() {
    plan::Program program{.name = "random", .segmentBytes = {1024, 1024, 1024}};
    for (int64_t left = below(7); left > 0; --left)
      program.instructions.push_back(instruction());
    return program;
  }
  plan::Instruction instruction() {
    switch (below(5)) {
    case 0:
      return {Move{.bytes = 8}, {operand(), operand()}, "move"};
    case 1:
      return {Collective{.axes = {"tp"}, .chunk = 2 + below(15)}, {operand(), operand()}, "reduce"};
    case 2:
      return {Collective{.kind = Collective::Kind::allGather, .axes = {"dp"}, .chunk = 2 + below(9)},
              {operand(), operand()},
              "gather"};
    default:
      return {Gemm{.m = 4, .n = 8, .k = 1 + below(8)}, {operand(), operand(), operand()}, "product"};
    }
  }
  std::mt19937 random_;
  plan::Plan plan_;
  plan::Chunk chunk_;
};

void expectNear(const ProgramTime &a, const ProgramTime &b, uint32_t seed) {
  EXPECT_NEAR(a.seconds(), b.seconds(), 1e-9 * (1 + a.seconds())) << "seed " << seed;
  EXPECT_NEAR(total(a.hidden), total(b.hidden), 1e-9 * (1 + a.seconds())) << "seed " << seed;
}

// Calls whose times are known from others take as long as where the joins of the whole run are found at once.
TEST(RunTime, IsWhatTheJoinsOfTheRunSay) {
  double hidden = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    RandomRun run(seed);
    const Machine machine = run.machine();
    SoftwareStack stack = run.stack();
    stack.kernel = 0; // a pair counts the host's time once
    const RunTime time = run.time(machine, stack), byJoins = run.timeByJoins(machine, stack);
    expectNear(time.layers, byJoins.layers, seed);
    expectNear(time.units, byJoins.units, seed);
    hidden += total(time.all().hidden);
  }
  EXPECT_GT(hidden, 10000) << "the runs say little";
}

// Whatever gets slower, a run does not get faster.
TEST(RunTime, SlowerIsNeverFaster) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    RandomRun run(seed);
    const Machine machine = run.machine();
    const SoftwareStack stack = run.stack();
    const double seconds = run.seconds(machine, stack);
    Machine links = machine, peaks = machine, memory = machine, taken = machine, inner = machine;
    for (LinkLevel &level : links.links)
      level.latency += 2, level.bandwidth *= 0.9;
    inner.links[0].bandwidth *= 0.9;
    peaks.flops.f32 *= 0.9;
    memory.memory.bandwidth *= 0.9;
    for (LinkLevel &level : taken.links)
      level.units += 1;
    for (const Machine &slower : {links, peaks, memory, taken, inner})
      ASSERT_LE(seconds, run.seconds(slower, stack) * (1 + 1e-9)) << "seed " << seed;
    SoftwareStack waits = stack, host = stack;
    waits.overlap = {Overlap::waits, Overlap::waits, Overlap::waits, Overlap::waits};
    host.kernel += 1;
    ASSERT_LE(seconds, run.seconds(machine, waits) * (1 + 1e-9)) << "seed " << seed;
    ASSERT_LE(seconds, run.seconds(machine, host) * (1 + 1e-9)) << "seed " << seed;
  }
}

} // namespace
