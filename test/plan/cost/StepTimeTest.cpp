// The time of programs and of a training step on a machine of small numbers, worked out on paper.
#include "plan/cost/StepTime.h"

#include "test/plan/SmallPlan.h"
#include "test/plan/cost/ToyMachine.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using plan::Collective;
using plan::Gemm;
using plan::Move;
using plan::Program;
using plan::RowKernel;
using plan::Target;

namespace {

constexpr auto kTensor = size_t(plan::AxisRole::tensor);

// --- Programs ------------------------------------------------------------------------------------------------

// gemm 13.8 s, all_reduce over tp 23 s on segment 1, kernel 3 s, gemm 13.8 s, then what is given.
Program makeProgram(plan::Instruction last) {
  const Gemm gemm{.m = 4, .n = 8, .k = 9};
  Program program;
  program.instructions = {
      {gemm, {{0, 0}, {0, 256}, {0, 1024}}, "dgrad"},
      {Collective{.axes = {"tp"}, .chunk = 16}, {{1, 0}, {1, 0}}, "reduce"},
      {RowKernel{.flops = 1, .bytes = 1000, .uses = {{plan::OperandUse::written, 4}}}, {{0, 2048}}, "norm"},
      {gemm, {{0, 0}, {0, 256}, {0, 1024}}, "wgrad"},
      std::move(last)};
  return program;
}
ProgramTime timeOf(Target target, plan::Instruction last) {
  const Machine machine = makeToyMachine();
  const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  return secondsOf({machine, mesh, target}, makeProgram(std::move(last)));
}
plan::Instruction copyOf(int64_t segment, int64_t offset) {
  return {Move{.bytes = 8}, {{segment, offset}, {2, 0}}, "copy"};
}

// Nothing overlaps them, on any target.
TEST(ProgramTime, InstructionsByThemselves) {
  const Machine machine = makeToyMachine();
  const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  const std::vector<double> seconds = secondsOfInstructions({machine, mesh, Target::cuda}, makeProgram(copyOf(1, 0)));
  ASSERT_EQ(seconds.size(), 5u);
  EXPECT_DOUBLE_EQ(seconds[0], 13.8);
  EXPECT_DOUBLE_EQ(seconds[1], 23);
  EXPECT_DOUBLE_EQ(seconds[2], 3);
  EXPECT_DOUBLE_EQ(seconds[3], 13.8);
}
// Threads do one thing after another.
TEST(ProgramTime, CollectivesAreExposedOnCpus) {
  const ProgramTime time = timeOf(Target::cpu, copyOf(1, 0));
  EXPECT_DOUBLE_EQ(time.products, 27.6);
  EXPECT_DOUBLE_EQ(time.rows, 3);
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], 23);
  EXPECT_DOUBLE_EQ(total(time.hidden), 0);
  EXPECT_DOUBLE_EQ(time.flops, 2 * 2 * 4 * 8 * 9);
}
// The row kernel hides nothing, wgrad 13.8 s of 23.
TEST(ProgramTime, ProductsHideCollectivesOnGpus) {
  const ProgramTime time = timeOf(Target::cuda, copyOf(1, 0));
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], 13.8);
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], 9.2);
  EXPECT_DOUBLE_EQ(time.seconds(), 27.6 + 3 + time.moves + 9.2);
}
// A product that does not touch what is reduced hides the rest.
TEST(ProgramTime, WholeCollectivesAreHidden) {
  const ProgramTime time = timeOf(Target::cuda, {Gemm{.m = 4, .n = 8, .k = 9}, {{0, 0}, {0, 256}, {0, 1024}}, "wgrad"});
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], 23);
  EXPECT_DOUBLE_EQ(total(time.exposed), 0);
}
// A product that reads the result waits for it.
TEST(ProgramTime, ReadersWait) {
  const ProgramTime time = timeOf(Target::cuda, {Gemm{.m = 4, .n = 8, .k = 9}, {{1, 0}, {0, 256}, {0, 1024}}, "next"});
  EXPECT_DOUBLE_EQ(time.exposed[kTensor], 9.2);
}

// One of two ranks with 4 rows gets 4 where load is even, and has room for 8. Exchange: 1 + 3 + 4 x 2 x 4 / 2 / 4 = 8 s. The product
// of 4 rows in one group is that of 4 x 8 x 9: 13.8 s; of 8 rows it would take twice the tiles.
TEST(ProgramTime, ExchangesAreApartAndLoadIsEven) {
  const plan::ExchangeRows exchange{.groups = 1, .rows = 4, .places = 8, .width = 2, .axes = {"tp"}};
  const plan::GroupedGemm product{.groups = 1, .rows = 8, .n = 8, .k = 9, .outputType = plan::DType::f32};
  Program program;
  program.instructions = {{exchange, {{3, 0}, {1, 0}, {1, 1024, 0, 7}}, "there"},
                          {product, {{0, 0, 0, 7}, {0, 1024}, {0, 4096}, {0, 8192}}, "shared"},
                          {Move{.bytes = 8}, {{1, 1024}, {2, 0}}, "copy"}};
  const Machine machine = makeToyMachine();
  const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  const ProgramTime time = secondsOf({machine, mesh, Target::cuda}, program);
  EXPECT_DOUBLE_EQ(time.products, 13.8);
  EXPECT_DOUBLE_EQ(time.hidden[kRowExchanges], 8);
  EXPECT_DOUBLE_EQ(total(time.hidden), 8);
  EXPECT_DOUBLE_EQ(total(time.exposed), 0);
  EXPECT_DOUBLE_EQ(secondsOf({machine, mesh, Target::cpu}, program).exposed[kRowExchanges], 8);
}

// The fullest rank has half as many more, or as many as it has places for: the exchange of 7 s without its launch takes as many times
// as long, and a product of 8 rows is another wave of 12.8 s.
TEST(ProgramTime, AllWaitForTheFullestRank) {
  const plan::ExchangeRows exchange{.groups = 1, .rows = 4, .places = 8, .width = 2, .axes = {"tp"}};
  const plan::GroupedGemm product{.groups = 1, .rows = 8, .n = 8, .k = 9};
  Program program;
  program.instructions = {{exchange, {{3, 0}, {1, 0}, {1, 1024, 0, 7}}, "there"},
                          {product, {{1, 1024, 0, 7}, {0, 1024}, {0, 4096}, {0, 8192}}, "product"}};
  const Machine machine = makeToyMachine();
  const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  const auto time = [&](double imbalance) {
    return secondsOf(Cluster{machine, mesh, Target::cuda, ownStack(), imbalance}, program);
  };
  EXPECT_DOUBLE_EQ(time(1).exposed[kRowExchanges], 8);
  EXPECT_DOUBLE_EQ(time(1.5).exposed[kRowExchanges], 1 + 7 * 1.5);
  EXPECT_DOUBLE_EQ(time(100).exposed[kRowExchanges], 1 + 7 * 2.0);
  EXPECT_DOUBLE_EQ(time(1).products, 13.8);
  EXPECT_DOUBLE_EQ(time(100).products, 13.8 + 12.8);
}

// Alone, each run waits 8 s for its rows. As a pair both exchanges are in progress before the first product, which
// waits for its own and hides the other.
TEST(ProgramTime, ARunOfAPairHidesTheExchangeOfTheOther) {
  const plan::ExchangeRows exchange{.groups = 1, .rows = 4, .places = 8, .width = 2, .axes = {"tp"}};
  const plan::GroupedGemm product{.groups = 1, .rows = 8, .n = 8, .k = 9};
  plan::Plan plan = plan::makeSmallPlan();
  plan::Program &program = plan.programs[0];
  program = {.name = "experts"};
  program.instructions = {{exchange, {{3, 0}, {1, 0}, {1, 1024, 0, 7}}, "there"},
                          {product, {{1, 1024, 0, 7}, {0, 1024}, {0, 4096}, {0, 8192}}, "product"}};
  // 4 segments, far apart: the runs of a pair do not touch what the other's have.
  const plan::Chunk chunk{
      .calls = {{.program = 0, .segments = {{-1, 0}, {-1, 1 << 20}, {-1, 2 << 20}, {-1, 3 << 20}}}}};
  const Machine machine = makeToyMachine();
  const Cluster cluster{machine, plan.mesh, Target::cuda};
  const auto timeOfPair = [&](const Cluster &devices) {
    return RunTimes(devices, plan).secondsOfPair(plan.stages[0], chunk, chunk).all();
  };
  const ProgramTime alone = secondsOf(cluster, program), pair = timeOfPair(cluster);
  EXPECT_DOUBLE_EQ(alone.exposed[kRowExchanges], 8);
  EXPECT_DOUBLE_EQ(pair.products, 2 * 13.8);
  EXPECT_DOUBLE_EQ(pair.exposed[kRowExchanges], 8);
  EXPECT_DOUBLE_EQ(pair.hidden[kRowExchanges], 8);
  const Cluster cpu{machine, plan.mesh, Target::cpu};
  EXPECT_DOUBLE_EQ(timeOfPair(cpu).seconds(), 2 * secondsOf(cpu, program).seconds());
}

// --- A step ------------------------------------------------------------------------------------------------------

// The small plan with a product (3.84 + 1 s) and a row kernel (50 / 50 + 1 s) for a block: F = 6.84 s. Two microbatches
// through two stages, a message of 64 bytes each (5 + 64 s), then an all_reduce of 128 bytes over both stages: 1 + 128 +
// 2 x 5 s.
//
//   stage 0 |F0 F1
//   message |   ......0     (69 s; the next one starts when F1 is done, and both are in transfer at once)
//   stage 1 |          F0 F1 R
plan::Plan stepPlan() {
  plan::Plan plan = plan::makeSmallPlan();
  plan.programs[0].instructions.resize(2);
  auto &kernel = std::get<RowKernel>(plan.programs[0].instructions[1].body);
  kernel.flops = 50;
  kernel.bytes = 128;
  return plan;
}
constexpr double kForward = 6.84, kMessage = 69, kReduce = 139;

TEST(StepTime, CostsOfTasks) {
  const plan::Plan plan = stepPlan();
  const Machine machine = makeToyMachine();
  const schedule::PlayCosts costs = costsOf({machine, plan.mesh, plan.target}, plan);
  ASSERT_EQ(costs.chunks.size(), 2u);
  for (size_t stage = 0; stage < 2; ++stage)
    for (size_t i = 0; i < plan.stages[stage].chunks.size(); ++i)
      EXPECT_DOUBLE_EQ(costs.chunks[stage][i],
                       plan.stages[stage].chunks[i].task == plan::Task::forward ? kForward : kReduce);
  EXPECT_EQ(costs.messageLatency, 5);
}

TEST(StepTime, SecondsAndParts) {
  const StepCost step = predict(stepPlan(), makeToyMachine());
  EXPECT_DOUBLE_EQ(step.seconds, 3 * kForward + kMessage + kReduce);
  EXPECT_DOUBLE_EQ(step.parts.products, 2 * 4.84);
  EXPECT_DOUBLE_EQ(step.parts.rows, 2 * 2);
  EXPECT_DOUBLE_EQ(step.parts.gradients, kReduce);
  EXPECT_NEAR(step.parts.messages, kMessage, 1e-9);
  EXPECT_NEAR(step.parts.bubble, kForward, 1e-9);
  EXPECT_DOUBLE_EQ(step.stages[1].busy, 2 * kForward + kReduce);
  EXPECT_DOUBLE_EQ(step.stages[1].idle, 1 - step.stages[1].busy / step.seconds);
}

// An all_reduce over dp (1 + 64 + 2 x 5 = 75 s) on the stream of task gradients, once F0 is done; R waits for it. On stage
// 1 it starts with F1, which hides 6.84 s of it.
TEST(StepTime, GradientsBesideTheBackward) {
  plan::Plan plan = stepPlan();
  plan.programs.push_back({.name = "gradients", .segments = {"g"}, .segmentBytes = {64}});
  plan.programs[2].instructions = {{Collective{.axes = {"dp"}, .chunk = 16}, {{0, 0}, {0, 0}}, "reduce"}};
  for (int64_t stage : {0, 1}) {
    plan::StagePlan &of = plan.stages[stage];
    of.chunks.push_back({.task = plan::Task::gradients, .calls = {{.program = 2, .segments = {{-1, 256}}}}});
    plan::ScheduleStep gradients{.chunk = 2, .waits = {6 - stage}}; // for the first run
    of.schedule.back().waits = {1};
    of.schedule.insert(of.schedule.end() - 1, gradients);
  }
  constexpr double gradients = 75;
  const StepCost step = predict(plan, makeToyMachine());
  EXPECT_NEAR(step.seconds, 2 * kForward + kMessage + gradients + kReduce, 1e-9);
  EXPECT_NEAR(step.parts.gradients, kReduce + gradients - kForward, 1e-9);
  EXPECT_NEAR(step.hiddenGradients, kForward, 1e-9);
  EXPECT_NEAR(step.parts.messages, kMessage, 1e-9);
  EXPECT_NEAR(step.parts.bubble, kForward, 1e-9);
}

// One stage's list: F0, an all_reduce over dp of 8 bytes (1 + 8 + 2 x 5 = 19 s) on the stream of task gradients, four more F, R. Half of
// the units are the all_reduce's: the products beside it take 19 / 2 s more, in all four.
TEST(StepTime, ProductsBesideGradientsAreSlower) {
  plan::Plan plan = stepPlan();
  plan.target = Target::cuda;
  plan.programs.push_back({.name = "gradients", .segments = {"g"}, .segmentBytes = {64}});
  plan.programs[2].instructions = {{Collective{.axes = {"dp"}, .chunk = 2}, {{0, 0}, {0, 0}}, "reduce"}};
  for (plan::StagePlan &stage : plan.stages) {
    stage.chunks.push_back({.task = plan::Task::gradients, .calls = {{.program = 2, .segments = {{-1, 256}}}}});
    stage.schedule = {{.chunk = 0, .microbatch = 0},
                      {.chunk = 2, .waits = {1}},
                      {.chunk = 0, .microbatch = 1, .microbatchStride = 1},
                      {.chunk = 1, .waits = {5}}};
    stage.repeats = {{2, 3, 4}};
  }
  const auto predicted = [&](int64_t units) {
    Machine machine = makeToyMachine();
    machine.links[1].units = units;
    return predict(plan, machine);
  };
  const StepCost free = predicted(0), slowed = predicted(1);
  EXPECT_NEAR(free.seconds, 5 * kForward + kReduce, 1e-9);
  EXPECT_NEAR(free.hiddenGradients, 19, 1e-9);
  EXPECT_NEAR(slowed.seconds, free.seconds + 19 / 2.0, 1e-9);
  EXPECT_NEAR(slowed.parts.gradients, kReduce + 19 / 2.0, 1e-9);
  EXPECT_DOUBLE_EQ(slowed.parts.products, free.parts.products);
  EXPECT_NEAR(slowed.parts.bubble, 0, 1e-9);
  plan.target = Target::cpu;
  EXPECT_NEAR(predicted(1).seconds, free.seconds, 1e-9);
}

TEST(StepTime, PartsAreTheStep) {
  for (const Machine &machine : {makeToyMachine(), *findMachine("h100")}) {
    const StepCost step = predict(plan::makeSmallPlan(), machine);
    const StepParts &p = step.parts;
    EXPECT_NEAR(p.products + p.attention + p.rows + p.moves + p.tensor + p.context + p.experts + p.gradients +
                    p.optimizer + p.messages + p.bubble,
                step.seconds, 1e-12 * step.seconds);
  }
}

// 64 parameters, 4 sequences of 4 tokens; 2 runs on 8 ranks of 128 FLOPs each.
TEST(StepTime, Utilisation) {
  const StepCost step = predict(stepPlan(), makeToyMachine());
  EXPECT_DOUBLE_EQ(step.modelFlops, 6 * 64 * 16);
  EXPECT_DOUBLE_EQ(step.hardwareFlops, 2 * 8 * 128);
  EXPECT_DOUBLE_EQ(step.modelUtilisation, 6 * 64 * 16 / (step.seconds * 8 * 100));
  EXPECT_DOUBLE_EQ(step.tokensPerSecond, 16 / step.seconds / 8);
}

TEST(StepTime, MoreBandwidthIsNeverSlower) {
  const Machine slow = makeToyMachine();
  Machine fast = slow;
  for (LinkLevel &link : fast.links)
    link.bandwidth *= 2;
  fast.memory.bandwidth *= 2;
  for (Target target : {Target::cpu, Target::cuda}) {
    plan::Plan plan = plan::makeSmallPlan();
    plan.target = target;
    EXPECT_LT(predict(plan, fast).seconds, predict(plan, slow).seconds);
  }
}

TEST(StepTime, TargetChoosesTheMachine) {
  plan::Plan plan = plan::makeSmallPlan();
  EXPECT_EQ(machineOf(plan).name, "cpu");
  plan.target = Target::cuda;
  plan.kernels = {{plan::KernelLevel::sm90, "kernels/sm_90.ptx", 1}};
  EXPECT_EQ(machineOf(plan).name, "h100");
}

} // namespace
