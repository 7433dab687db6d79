// Stacks: their files, and what each field changes, worked out on paper for the machine of small numbers.
#include "plan/cost/InstructionTime.h"
#include "plan/cost/StepTime.h"

#include "test/plan/SmallPlan.h"
#include "test/plan/cost/ToyMachine.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using plan::Attention;
using plan::Collective;
using plan::Gemm;
using plan::GroupedGemm;
using plan::Program;
using plan::Target;

namespace {

constexpr auto kTensor = size_t(plan::AxisRole::tensor);

const plan::Mesh &mesh() {
  static const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  return mesh;
}

// --- Files -------------------------------------------------------------------------------------------------------

constexpr const char *kStack =
    R"({"name": "a", "description": "b", "attention": {"fused": true}, "products": {"grouped": 1},
  "rows": {"layers": 1, "optimizer": 1}, "overlap": {"tensor": "waits", "context": "waits", "experts": "waits", "units": "waits"},
  "repeats_last_product": false, "kernel": 0,
  "sources": {"attention": "a", "products": "a", "rows": "a", "overlap": "a", "repeats_last_product": "a", "kernel": "a"}})";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}
void expectRefused(const std::string &from, const std::string &to, const std::string &message) {
  const Result<SoftwareStack> stack = parseStack(replaced(kStack, from, to));
  ASSERT_FALSE(stack.isOk()) << to;
  EXPECT_NE(stack.status().message().find(message), std::string::npos) << stack.status().message();
}

TEST(Stacks, OfTheLibraryParse) {
  ASSERT_TRUE(parseStack(kStack).isOk());
  EXPECT_EQ(stackNames().front(), "mgc");
  for (const std::string &name : stackNames()) {
    const Result<SoftwareStack> stack = findStack(name);
    ASSERT_TRUE(stack.isOk()) << stack.status().message();
    EXPECT_EQ(stack->name, name);
  }
}
TEST(Stacks, OurOwnChangesNothing) {
  const SoftwareStack standard, &own = ownStack();
  EXPECT_EQ(own.attention.isFused, standard.attention.isFused);
  EXPECT_EQ(own.attention.times, standard.attention.times);
  EXPECT_EQ(own.products.grouped, standard.products.grouped);
  EXPECT_EQ(own.rows.layers, standard.rows.layers);
  EXPECT_EQ(own.rows.optimizer, standard.rows.optimizer);
  EXPECT_EQ(own.overlap.tensor, standard.overlap.tensor);
  EXPECT_EQ(own.overlap.context, standard.overlap.context);
  EXPECT_EQ(own.overlap.experts, standard.overlap.experts);
  EXPECT_EQ(own.overlap.units, standard.overlap.units);
  EXPECT_EQ(own.repeatsLastProduct, standard.repeatsLastProduct);
  EXPECT_EQ(own.kernel, standard.kernel);
}
TEST(Stacks, BadFieldsAreNamed) {
  expectRefused("\"kernel\": 0", "\"kernel\": -1", "stack.kernel: found -1");
  expectRefused("\"layers\": 1", "\"layers\": 1e9", "stack.rows.layers: found 1000000000");
  expectRefused("\"grouped\": 1", "\"grouped\": -2", "stack.products.grouped: found -2");
  expectRefused("\"tensor\": \"waits\"", "\"tensor\": \"never\"", "stack.overlap.tensor");
  expectRefused("\"units\": \"waits\"", "\"units\": \"sliced\"", "stack.overlap.units: found \"sliced\"");
  expectRefused("\"fused\": true", "\"fused\": true, \"forward_passes\": 2", "stack.attention: is fused");
  expectRefused("\"name\": \"a\"", "\"name\": \"\"", "stack.name: found an empty string");
  expectRefused(", \"kernel\": \"a\"", "", "\"kernel\" is missing");
  expectRefused("\"kernel\": \"a\"", "\"kernel\": \"a\", \"lunch\": \"a\"", "\"lunch\" is no field of a stack");
  expectRefused("\"kernel\": 0", "\"kernel\": 0, \"lunch\": 1", "\"lunch\" is no field");
  EXPECT_NE(findStack("megatron").status().message().find("expected one of mgc, megatron-2021"), std::string::npos);
}

// --- Instructions ------------------------------------------------------------------------------------------------

double secondsOf(const SoftwareStack &stack, const plan::InstructionBody &body) {
  const Machine machine = makeToyMachine();
  return cost::secondsOf({machine, mesh(), Target::cuda, stack}, body);
}

// 2 heads, 4 x 4 pairs, d = 8. A product of 4 x 4 x 8 is 2 tiles a head, 4 in 2 waves: 2 x 2 x 16 x 9 / 50 = 11.52 s; one of
// 4 x 8 x 4 is 4 tiles a head, in 4 waves of a depth of 5: 2 x 4 x 16 x 5 / 50 = 12.8 s. Scores: 2 x 16 x 4 bytes = 128 bytes.
TEST(Stacks, AttentionThatIsNotFused) {
  SoftwareStack stack;
  Attention attention{.s = 4, .t = 4, .b = 1, .g = 2, .r = 1, .d = 8};
  stack.attention = {.isFused = false, .forwardPasses = 5, .backwardPasses = 10};
  EXPECT_DOUBLE_EQ(secondsOf(stack, attention), 1 + 11.52 + 1 + 12.8 + 5 * 128.0 / 500);
  attention.backward = true;
  EXPECT_DOUBLE_EQ(secondsOf(stack, attention), 4 + 11.52 + 3 * 12.8 + 10 * 128.0 / 500);
}
TEST(Stacks, AnOlderKernelOfAttention) {
  SoftwareStack stack;
  const Attention attention{.s = 4, .t = 4, .b = 1, .g = 2, .r = 1, .d = 8};
  const double seconds = secondsOf(stack, attention);
  stack.attention.times = 2;
  EXPECT_DOUBLE_EQ(secondsOf(stack, attention) - 1, 2 * (seconds - 1));
}
TEST(Stacks, GroupedProducts) {
  SoftwareStack stack;
  const GroupedGemm grouped{.groups = 2, .rows = 8, .n = 8, .k = 9};
  const double seconds = secondsOf(stack, grouped);
  stack.products.grouped = 1.5;
  EXPECT_DOUBLE_EQ(secondsOf(stack, grouped) - 1, 1.5 * (seconds - 1));
  EXPECT_DOUBLE_EQ(secondsOf(stack, Gemm{.m = 4, .n = 8, .k = 9}), secondsOf({}, Gemm{.m = 4, .n = 8, .k = 9}));
}

// --- Programs ----------------------------------------------------------------------------------------------------

// A product of 12.8 s (a launch of 1 s in it is 13.8), a reduction over tp (2 ranks, 8 floats a rank: 23 s) of what it made, and a
// product that does not touch it.
Program makeProgram() {
  Program program;
  program.instructions = {
      {Gemm{.m = 4, .n = 8, .k = 9}, {{0, 0}, {0, 256}, {0, 1024}}, "first"},
      {Collective{.kind = Collective::Kind::allReduce, .axes = {"tp"}, .chunk = 16}, {{0, 1024}}, "reduce"},
      {Gemm{.m = 4, .n = 8, .k = 9}, {{0, 0}, {0, 256}, {0, 4096}}, "second"}};
  return program;
}
ProgramTime timeOf(const SoftwareStack &stack) {
  Machine machine = makeToyMachine();
  machine.products.units = 4;
  return cost::secondsOf({machine, mesh(), Target::cuda, stack}, makeProgram());
}

TEST(Stacks, CollectivesFollowOrWait) {
  SoftwareStack stack;
  const ProgramTime follows = timeOf(stack);
  const double all = follows.hidden[kTensor] + follows.exposed[kTensor], product = follows.products / 2;
  EXPECT_DOUBLE_EQ(follows.hidden[kTensor], std::min(all, product)); // behind the second product
  EXPECT_GT(follows.hidden[kTensor], 0);
  stack.overlap.tensor = Overlap::waits;
  const ProgramTime waits = timeOf(stack);
  EXPECT_DOUBLE_EQ(waits.exposed[kTensor], all);
  EXPECT_DOUBLE_EQ(waits.products, follows.products);
}
// Half of the reduction, of two ranks, goes along with the product that makes what is reduced.
TEST(Stacks, CollectivesInSlices) {
  SoftwareStack stack;
  stack.overlap.tensor = Overlap::waits;
  const double all = timeOf(stack).exposed[kTensor], product = timeOf(stack).products / 2;
  stack.overlap.tensor = Overlap::sliced;
  EXPECT_DOUBLE_EQ(timeOf(stack).hidden[kTensor], std::min(all / 2, product));
  EXPECT_DOUBLE_EQ(timeOf(stack).exposed[kTensor], all - std::min(all / 2, product));
}
// A gather goes along with the product that takes it.
TEST(Stacks, GathersInSlices) {
  SoftwareStack stack;
  stack.overlap.tensor = Overlap::sliced;
  const Machine machine = makeToyMachine();
  Program program;
  program.instructions = {
      {Collective{.kind = Collective::Kind::allGather, .axes = {"tp"}, .chunk = 4}, {{0, 0}, {1, 0}}, "gather"},
      {Gemm{.m = 4, .n = 8, .k = 9}, {{1, 0}, {0, 256}, {0, 1024}}, "product"}};
  const ProgramTime time = cost::secondsOf({machine, mesh(), Target::cuda, stack}, program);
  EXPECT_GT(time.hidden[kTensor], 0);
  EXPECT_DOUBLE_EQ(time.hidden[kTensor], time.exposed[kTensor]);
  // A kernel that reads it waits for all of it.
  program.instructions.insert(program.instructions.begin() + 1, {plan::Move{.bytes = 8}, {{1, 0}, {2, 0}}, "copy"});
  EXPECT_DOUBLE_EQ(total(cost::secondsOf({machine, mesh(), Target::cuda, stack}, program).hidden), 0);
}
// --- Collectives by role ---------------------------------------------------------------------------------------------

// Two ranks along each axis: tp inside of a node, the others not.
const plan::Mesh &roleMesh() {
  static const plan::Mesh mesh = [] {
    plan::Mesh mesh;
    mesh.axes = {
        {"dp", 2, plan::AxisRole::data}, {"cp", 2, plan::AxisRole::sequence}, {"tp", 2, plan::AxisRole::tensor}};
    for (const plan::Axis &axis : mesh.axes)
      mesh.named[axis.name] = {axis.name};
    return mesh;
  }();
  return mesh;
}
// The same collective for each use; rows of experts are exchanged.
plan::Instruction collectiveOf(size_t use) {
  if (use == kRowExchanges)
    return {plan::ExchangeRows{.groups = 1, .rows = 4, .places = 8, .width = 2, .axes = {"dp"}},
            {{0, 8192}, {0, 1024}, {0, 8208, 0, 7}},
            "exchange"};
  for (const plan::Axis &axis : roleMesh().axes)
    if (size_t(axis.role) == use)
      return {Collective{.kind = Collective::Kind::allReduce, .axes = {axis.name}, .chunk = 16}, {{0, 1024}}, "reduce"};
  return {};
}
ProgramTime timeOfUse(size_t use, const StackOverlap &overlap, std::vector<int64_t> units = {0, 0}) {
  Machine machine = makeToyMachine();
  machine.products.units = 4;
  for (size_t level = 0; level < units.size(); ++level)
    machine.links[level].units = units[level];
  SoftwareStack stack;
  stack.overlap = overlap;
  Program program = makeProgram();
  program.instructions[1] = collectiveOf(use);
  return cost::secondsOf({machine, roleMesh(), Target::cuda, stack}, program);
}
constexpr StackOverlap kAllWait{Overlap::waits, Overlap::waits, Overlap::waits, Overlap::waits};

struct Role {
  size_t use;
  Overlap StackOverlap::*rule;
};
class StackRoles : public testing::TestWithParam<Role> {};

// Collectives of a role go by its own rule alone.
TEST_P(StackRoles, HaveARuleOfTheirOwn) {
  const auto [use, rule] = GetParam();
  const ProgramTime waits = timeOfUse(use, kAllWait);
  const double all = waits.exposed[use], product = waits.products / 2;
  EXPECT_GT(all, 0);
  StackOverlap only = kAllWait, others;
  only.*rule = Overlap::follows;
  EXPECT_DOUBLE_EQ(timeOfUse(use, only).hidden[use], std::min(all, product));
  only.*rule = Overlap::sliced;
  EXPECT_DOUBLE_EQ(timeOfUse(use, only).hidden[use], std::min(all / 2, product));
  others.*rule = Overlap::waits;
  EXPECT_DOUBLE_EQ(timeOfUse(use, others).exposed[use], all);
}
// One of 4 units is the collective's: the product is slower by a quarter of the time beside it. The units are those of the outermost
// level that it passes; the device has them all where the collective waits.
TEST_P(StackRoles, ProductsBesideThemAreSlower) {
  const auto [use, rule] = GetParam();
  const bool isInside = use == kTensor;
  const std::vector<int64_t> one = {isInside, !isInside}, other = {!isInside, isInside};
  const ProgramTime free = timeOfUse(use, {}), taken = timeOfUse(use, {}, one);
  EXPECT_GT(taken.hidden[use], 0);
  EXPECT_DOUBLE_EQ(taken.products, free.products + taken.hidden[use] / 4);
  EXPECT_GE(taken.hidden[use], free.hidden[use]);
  EXPECT_DOUBLE_EQ(timeOfUse(use, {}, {2 * one[0], 2 * one[1]}).products,
                   free.products + timeOfUse(use, {}, {2 * one[0], 2 * one[1]}).hidden[use] / 2);
  EXPECT_DOUBLE_EQ(timeOfUse(use, {}, other).products, free.products);
  StackOverlap sliced = kAllWait;
  sliced.*rule = Overlap::sliced;
  EXPECT_DOUBLE_EQ(timeOfUse(use, sliced, one).products, free.products + timeOfUse(use, sliced, one).hidden[use] / 4);
  EXPECT_DOUBLE_EQ(timeOfUse(use, kAllWait, one).products, free.products);
}
INSTANTIATE_TEST_SUITE_P(All, StackRoles,
                         testing::Values(Role{kTensor, &StackOverlap::tensor},
                                         Role{size_t(plan::AxisRole::sequence), &StackOverlap::context},
                                         Role{size_t(plan::AxisRole::data), &StackOverlap::experts},
                                         Role{kRowExchanges, &StackOverlap::experts}));

TEST(Stacks, AProgramTakesAsLongAsItsLaunches) {
  SoftwareStack stack;
  const double seconds = timeOf(stack).seconds();
  stack.kernel = 1e-3;
  EXPECT_DOUBLE_EQ(timeOf(stack).seconds(), seconds);
  stack.kernel = 1000;
  EXPECT_DOUBLE_EQ(timeOf(stack).seconds(), 3000);
}
// Backward leaves out the last product of forward: the stack makes it, unless a norm behind it has made it do so already.
TEST(Stacks, LastProductsOfFullRecomputation) {
  const Machine machine = makeToyMachine();
  plan::Plan plan;
  plan.mesh = mesh();
  plan.programs = {{.name = "layer.forward", .policy = "full"}, {.name = "layer.backward", .policy = "full"}};
  const Gemm small{.m = 4, .n = 8, .k = 9}, large{.m = 4, .n = 16, .k = 9};
  plan.programs[0].instructions = {{small, {{0, 0}, {0, 256}, {0, 1024}}, "layer.forward/down"}};
  plan.programs[1].instructions = {{large, {{0, 0}, {0, 256}, {0, 1024}}, "layer.backward/up"}};
  SoftwareStack stack;
  const auto productsOf = [&](int64_t program) {
    return RunTimes({machine, plan.mesh, Target::cuda, stack}, plan).secondsOf(program).products;
  };
  const auto products = [&] { return productsOf(1); };
  const double alone = products();
  stack.repeatsLastProduct = true;
  const double last = productsOf(0);
  EXPECT_DOUBLE_EQ(products(), alone + last);
  plan.programs[1].name = "layer.input"; // a backward in halves
  EXPECT_DOUBLE_EQ(products(), alone + last);
  plan.programs[1].policy = "core_attn";
  EXPECT_DOUBLE_EQ(products(), alone);
  plan.programs[1].policy = "full";
  plan.programs[1].instructions.push_back(
      {small, {{0, 0}, {0, 256}, {0, 1024}}, "layer.input/other"}); // sizes are equal
  EXPECT_DOUBLE_EQ(products(), alone + 2 * last);
  plan.programs[1].instructions.back().label = "layer.input/down";
  EXPECT_DOUBLE_EQ(products(), alone + last);
}
// Each call of backward in a run takes it, the product and the reduction behind it, which is exposed; so does one in a pair.
TEST(Stacks, LastProductsOfEachCall) {
  const Machine machine = makeToyMachine();
  plan::Plan plan = plan::makeSmallPlan();
  plan.programs = {{.name = "layer.forward", .policy = "full", .segmentBytes = {8192}},
                   {.name = "layer.backward", .policy = "full", .segmentBytes = {8192}}};
  plan.programs[0].instructions = makeProgram().instructions;
  std::vector<plan::Instruction> &forward = plan.programs[0].instructions;
  forward.pop_back(); // a product and a reduction are left
  plan::Chunk chunk{.task = plan::Task::backward, .calls = {{1, 0, 1, {{-1, 0}}}}, .repeats = {{0, 1, 3}}};
  SoftwareStack stack;
  const auto time = [&](bool isInPair) {
    RunTimes runs({machine, plan.mesh, Target::cuda, stack}, plan);
    return (isInPair ? runs.secondsOfPair(plan.stages[0], chunk, {}) : runs.secondsOf(plan.stages[0], chunk)).layers;
  };
  EXPECT_EQ(time(false).seconds(), 0);
  stack.repeatsLastProduct = true;
  const ProgramTime each = cost::secondsOf({machine, plan.mesh, Target::cuda}, plan.programs[0]);
  forward.insert(forward.begin(), {Gemm{.m = 4, .n = 8, .k = 90}, {{0, 0}, {0, 256}, {0, 4096}}, "up"});
  EXPECT_GT(each.exposed[kTensor], 0);
  for (const bool isInPair : {false, true}) {
    EXPECT_DOUBLE_EQ(time(isInPair).products, 3 * each.products);
    EXPECT_DOUBLE_EQ(time(isInPair).exposed[kTensor], 3 * each.exposed[kTensor]);
  }
}
// A stack that does more of anything, or overlaps less, is never faster.
TEST(Stacks, MoreIsNeverFaster) {
  const plan::Plan plan = plan::makeSmallPlan();
  const Machine machine = makeToyMachine();
  const auto seconds = [&](const SoftwareStack &stack) { return predict(plan, machine, {stack}).seconds; };
  const SoftwareStack own;
  std::vector<SoftwareStack> more(7, own);
  more[0].rows.layers = 1000;
  more[1].rows.optimizer = 2;
  more[2].attention.times = 2;
  more[3].products.grouped = 2;
  more[4].kernel = 10;
  more[5].overlap = {Overlap::waits, Overlap::waits, Overlap::waits, Overlap::waits};
  more[6].repeatsLastProduct = true;
  for (size_t i = 0; i < more.size(); ++i)
    EXPECT_GE(seconds(more[i]), seconds(own)) << i;
  EXPECT_GT(seconds(more[0]), seconds(own));
  EXPECT_GT(seconds(more[4]), seconds(own));
  EXPECT_EQ(predict(plan, machine, {more[0]}).stack, "");
}
TEST(Stacks, BytesOfRowKernels) {
  const Machine machine = makeToyMachine();
  Program program;
  program.instructions = {{plan::RowKernel{.flops = 1, .bytes = 1500}, {}, "rows"}};
  const Cluster cluster{machine, mesh(), Target::cuda};
  EXPECT_DOUBLE_EQ(cost::secondsOf(cluster, program).rows, 1 + 3);
  EXPECT_DOUBLE_EQ(cost::secondsOf(cluster, program, 2.5).rows, 1 + 2.5 * 3);
}

} // namespace
