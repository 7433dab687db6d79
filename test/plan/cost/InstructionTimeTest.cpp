// Seconds of each kind of instruction on a machine of small numbers, worked out on paper, and what must not make them
// longer.
#include "plan/cost/InstructionTime.h"

#include "test/plan/SmallPlan.h"
#include "test/plan/cost/ToyMachine.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using plan::Attention;
using plan::Collective;
using plan::Gemm;
using plan::Move;
using plan::RowKernel;
using Kind = plan::Collective::Kind;

namespace {

// Two stages x two data ranks x two tensor ranks: tp lies inside a node of two, dp and pp do not.
const plan::Mesh &mesh() {
  static const plan::Mesh mesh = plan::makeSmallPlan().mesh;
  return mesh;
}

double secondsOn(const Machine &machine, const plan::InstructionBody &body) {
  return secondsOf({machine, mesh(), plan::Target::cpu}, body);
}
double toySeconds(const plan::InstructionBody &body) { return secondsOn(makeToyMachine(), body); }

// --- Compute -------------------------------------------------------------------------------------------------

// 4 tiles of 4 x 2 or 2 x 4 are 2 waves of 2 x 8 elements, of k + 1 products of 2 FLOPs at 50 FLOP/s.
TEST(InstructionTime, ProductOfFullWaves) {
  EXPECT_DOUBLE_EQ(toySeconds(Gemm{.m = 4, .n = 8, .k = 9}), 2.0 * 2 * 16 * 10 / 50 + 1);
}
TEST(InstructionTime, ProductOfBf16IsTwiceAsFast) {
  Gemm gemm{.m = 4, .n = 8, .k = 9, .inputType = plan::DType::bf16, .outputType = plan::DType::bf16};
  EXPECT_DOUBLE_EQ(toySeconds(gemm), 2.0 * 2 * 16 * 10 / 100 + 1);
}
// One element more in n: 5 tiles of 4 x 2, 3 waves; in the other orientation 2 x 3 = 6 tiles, 3 waves.
TEST(InstructionTime, ProductWithAnotherWave) {
  EXPECT_DOUBLE_EQ(toySeconds(Gemm{.m = 4, .n = 9, .k = 9}), 3.0 * 2 * 16 * 10 / 50 + 1);
}
// One tile of two units: k in 2 parts of 50, whose sums of 8 x 2 x 8 bytes go through memory.
TEST(InstructionTime, ProductSplitAlongK) {
  const double whole = 2.0 * 16 * 101 / 50, parts = 2.0 * 16 * 51 / 50 + 8 * 2 * 8 / 500.0;
  EXPECT_LT(parts, whole);
  EXPECT_DOUBLE_EQ(toySeconds(Gemm{.m = 2, .n = 4, .k = 100}), parts + 1);
  EXPECT_DOUBLE_EQ(toySeconds(Gemm{.m = 4, .n = 4, .k = 100}), whole + 1); // no unit is without a tile
}
// 2 x 4 fits one tile of 2 x 4; as 4 x 2 it would be two. One wave in both cases.
TEST(InstructionTime, ProductTakesTheBetterTile) {
  Machine machine = makeToyMachine();
  machine.products.units = 1;
  EXPECT_DOUBLE_EQ(secondsOn(machine, Gemm{.m = 2, .n = 4, .k = 9}), 2.0 * 8 * 10 / 50 + 1);
}
// 4 bytes x (4 x 9 + 9 x 8 + 4 x 8) at 0.5 bytes/s.
TEST(InstructionTime, ProductBoundByMemory) {
  Machine machine = makeToyMachine();
  machine.memory.bandwidth = 1;
  EXPECT_DOUBLE_EQ(secondsOn(machine, Gemm{.m = 4, .n = 8, .k = 9}), 4.0 * (36 + 72 + 32) / 0.5 + 1);
}

TEST(InstructionTime, RowKernel) {
  EXPECT_DOUBLE_EQ(toySeconds(RowKernel{.flops = 50, .bytes = 1500}), 1500.0 / 500 + 1);
  EXPECT_DOUBLE_EQ(toySeconds(RowKernel{.flops = 500, .bytes = 1500}), 500.0 / 50 + 1);
}

// Forward: two products of 2 x 4 x 4/2 x 2 FLOPs at 50 FLOP/s; backward: five at 25.
TEST(InstructionTime, Attention) {
  Attention attention{.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 2};
  EXPECT_DOUBLE_EQ(toySeconds(attention), 64.0 / 50 + 1);
  attention.backward = true;
  EXPECT_DOUBLE_EQ(toySeconds(attention), 160.0 / 25 + 1);
}
// The second half of 8 queries in plain order sees 3/2 of the mean; zigzag makes the halves equal.
TEST(InstructionTime, AttentionOfTheSlowestRank) {
  Attention attention{.s = 4, .t = 8, .b = 1, .g = 1, .r = 1, .d = 2, .zigzag = 1, .queryAxes = {"dp"}};
  EXPECT_DOUBLE_EQ(toySeconds(attention), 1.5 * 2 * 2 * 4 * 4 * 2 / 50 + 1);
  attention.zigzag = 2;
  EXPECT_DOUBLE_EQ(toySeconds(attention), 2.0 * 2 * 4 * 4 * 2 / 50 + 1);
}

// Read and written; fill is written alone.
TEST(InstructionTime, Moves) {
  EXPECT_DOUBLE_EQ(toySeconds(Move{.bytes = 1000}), 2000.0 / 500 + 1);
  EXPECT_DOUBLE_EQ(toySeconds(Move{.kind = Move::Kind::fill, .bytes = 1000}), 1000.0 / 500 + 1);
}

// At 10 bytes/s, in either direction.
TEST(InstructionTime, HostCopies) {
  EXPECT_DOUBLE_EQ(toySeconds(plan::HostCopy{plan::HostCopy::Direction::in, 100}), 100.0 / 10 + 1);
  EXPECT_DOUBLE_EQ(toySeconds(plan::HostCopy{plan::HostCopy::Direction::out, 100}), 100.0 / 10 + 1);
}

// --- Collectives: a launch of 1 s, 64 bytes a rank ---------------------------------------------------------------

// Inside a node: 2 B (n - 1) / n = 64 bytes at 4 bytes/s, twice one hop of 3 s.
TEST(InstructionTime, AllReduceInANode) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.axes = {"tp"}, .chunk = 16}), 1 + 64.0 / 4 + 2 * 3);
}
TEST(InstructionTime, AllReduceBetweenNodes) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.axes = {"dp"}, .chunk = 16}), 1 + 64.0 / 1 + 2 * 5);
}
// 2 x 64 x 3/4 = 96 bytes: 24 s inside, and 48 s between nodes with two links. A ring has two hops of 3 s and one of 5
// s, a tree one of each.
TEST(InstructionTime, AllReduceOfTwoLevels) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.axes = {"dp", "tp"}, .chunk = 16}), 1 + 48 + 2 * 8);
}
// 64 bytes of each rank to 3 others: 192 bytes, 96 s between nodes, and the ring's hops.
TEST(InstructionTime, AllGatherOfTwoLevels) {
  Collective gather{.kind = Kind::allGather, .axes = {"dp", "tp"}, .outer = 2, .chunk = 8};
  EXPECT_DOUBLE_EQ(toySeconds(gather), 1 + 96 + 11);
  gather.kind = Kind::reduceScatter;
  EXPECT_DOUBLE_EQ(toySeconds(gather), 1 + 96 + 11);
}
// 64 bytes for each of 3 others; two of them are in the other node: 128 bytes over a link of its own.
TEST(InstructionTime, AllToAllOfTwoLevels) {
  Collective exchange{.kind = Kind::allToAll, .axes = {"dp", "tp"}, .outer = 2, .chunk = 8};
  EXPECT_DOUBLE_EQ(toySeconds(exchange), 1 + 128 + 5);
}
// 64 bytes from each rank to the next: those that leave a node share no link, and take longest.
TEST(InstructionTime, PermuteOfTwoLevels) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.kind = Kind::permute, .axes = {"dp", "tp"}, .chunk = 16}), 1 + 64 + 5);
}
TEST(InstructionTime, CollectiveOfStages) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.stages = {0, 1}, .chunk = 16}), 1 + 64 + 2 * 5);
}
// 7 s inside of a node, 2 s between nodes: the most of the levels that it passes, once, whatever it does.
TEST(InstructionTime, BaseOfCollectives) {
  Machine machine = makeToyMachine();
  machine.links[0].base = 7, machine.links[1].base = 2;
  const auto base = [&](const Collective &collective) {
    return secondsOn(machine, collective) - toySeconds(collective);
  };
  EXPECT_DOUBLE_EQ(base({.axes = {"tp"}, .chunk = 16}), 7);
  EXPECT_DOUBLE_EQ(base({.axes = {"tp"}, .chunk = 1600}), 7);
  EXPECT_DOUBLE_EQ(base({.axes = {"dp"}, .chunk = 16}), 2);
  for (const Kind kind : {Kind::allReduce, Kind::allGather, Kind::reduceScatter, Kind::allToAll, Kind::permute})
    EXPECT_DOUBLE_EQ(base({.kind = kind, .axes = {"dp", "tp"}, .outer = 2, .chunk = 8}), 7);
  EXPECT_DOUBLE_EQ(base({.stages = {0, 1}, .chunk = 16}), 2);
  EXPECT_DOUBLE_EQ(base({.axes = {"tpr"}, .chunk = 16}), 0) << "one rank";
  const Cluster slow{machine, mesh()};
  EXPECT_EQ(messageRates(slow).latency, 5) << "a message is no collective";
}
TEST(InstructionTime, CollectiveOfOneRank) {
  EXPECT_DOUBLE_EQ(toySeconds(Collective{.axes = {"tpr"}, .chunk = 16}), 1);
}

TEST(Messages, SlowestBoundary) {
  const Machine machine = makeToyMachine();
  const MessageRates rates = messageRates({machine, mesh()});
  EXPECT_EQ(rates.latency, 5);
  EXPECT_EQ(rates.secondsPerByte, 1);
}

// --- Members -----------------------------------------------------------------------------------------------------

// 8 ranks to a node. tp 6: nodes cut groups at ranks 8 and 16, and each has parts of at least 2. dp neighbours are 6
// apart: alone in any node that starts at a multiple of 8.
TEST(Members, DomainsThatCutGroups) {
  const plan::Mesh uneven{.axes = {{"dp", 4, plan::AxisRole::data}, {"tp", 6}}, .named = {}};
  Machine machine = makeToyMachine();
  machine.links[0].ranks = 8;
  EXPECT_EQ(membersOf({machine, uneven}, plan::Axes{"tp"}), (GroupMembers{2, 6}));
  EXPECT_EQ(membersOf({machine, uneven}, plan::Axes{"dp"}), (GroupMembers{1, 4}));
  machine.links[0].ranks = 24;
  EXPECT_EQ(membersOf({machine, uneven}, plan::Axes{"dp", "tp"}), (GroupMembers{24, 24}));
}
TEST(Members, ThreeLevels) {
  const plan::Mesh large{.axes = {{"dp", 16, plan::AxisRole::data}, {"cp", 4, plan::AxisRole::sequence}, {"tp", 4}},
                         .named = {}};
  Machine machine = makeToyMachine();
  machine.links = {{8, 8, 1, 1}, {64, 4, 1, 1}, {0, 2, 1, 1}};
  EXPECT_EQ(membersOf({machine, large}, plan::Axes{"cp"}), (GroupMembers{2, 4, 4}));
  EXPECT_EQ(membersOf({machine, large}, plan::Axes{"dp", "cp"}), (GroupMembers{2, 16, 64}));
}

// --- Monotonicity --------------------------------------------------------------------------------------------

TEST(Monotone, LargerProductsAreNeverFaster) {
  for (const char *name : {"cpu", "h100"}) {
    const Machine machine = *findMachine(name);
    for (int64_t size : {1, 7, 64, 100, 129, 500, 2048, 4097, 12288})
      for (int64_t k : {1, 63, 1000, 12288})
        for (int64_t more : {1, 64, 1000}) {
          const double seconds = secondsOn(machine, Gemm{.m = size, .n = 1000, .k = k});
          EXPECT_LE(seconds, secondsOn(machine, Gemm{.m = size, .n = 1000, .k = k + more})) << size << " " << k;
          EXPECT_LE(seconds, secondsOn(machine, Gemm{.m = size + more, .n = 1000, .k = k})) << size << " " << k;
          EXPECT_LE(seconds, secondsOn(machine, Gemm{.m = size, .n = 1000 + more, .k = k})) << size << " " << k;
        }
  }
}

TEST(Monotone, FasterMachinesAreNeverSlower) {
  const plan::Plan plan = plan::makeSmallPlan();
  Machine slow = makeToyMachine();
  slow.links[0].base = 2, slow.links[1].base = 3;
  std::vector<Machine> faster(8, slow);
  faster[0].memory.bandwidth *= 2;
  faster[1].flops = {200, 400};
  faster[2].links[0].bandwidth *= 2;
  faster[3].links[1].bandwidth *= 2;
  faster[4].links[1].latency /= 2;
  faster[5].launch = 0;
  faster[6].links[0].base = 0;
  faster[7].links[1].base = 0;
  for (const plan::Instruction &instruction : plan.programs[0].instructions)
    for (const Machine &machine : faster)
      EXPECT_LE(secondsOn(machine, instruction.body), secondsOn(slow, instruction.body)) << instruction.label;
}

// A group's base is no less than that of a part of it, whichever level has the larger one.
TEST(Monotone, LargerGroupsHaveNoSmallerBase) {
  Machine machine = makeToyMachine();
  for (const double inner : {0.0, 1.0, 9.0})
    for (const double outer : {0.0, 2.0, 5.0}) {
      machine.links[0].base = inner, machine.links[1].base = outer;
      const auto base = [&](plan::Axes axes) {
        const Collective collective{.axes = std::move(axes), .chunk = 16};
        return secondsOn(machine, collective) - toySeconds(collective);
      };
      EXPECT_LE(base({"tp"}), base({"dp", "tp"}) + 1e-9) << inner << " " << outer;
      EXPECT_LE(base({"dp"}), base({"dp", "tp"}) + 1e-9) << inner << " " << outer;
    }
}

} // namespace
