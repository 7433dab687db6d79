// Data flow by bytes: sets and maps of bytes, programs, chunks, and the message for each thing that is wrong.
#include "plan/prove/ChunkFlow.h"
#include "plan/prove/Completed.h"
#include "plan/prove/VerifyCountedRows.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

using Ranges = std::vector<ByteInterval>;

TEST(ByteSet, joinsWhatTouches) {
  ByteSet set;
  set.add({8, 16});
  set.add({24, 32});
  set.add({4, 4});
  EXPECT_EQ(set.ranges(), (Ranges{{8, 16}, {24, 32}}));
  set.add({16, 20});
  EXPECT_EQ(set.ranges(), (Ranges{{8, 20}, {24, 32}}));
  set.add({0, 28});
  EXPECT_EQ(set.ranges(), (Ranges{{0, 32}}));
}

TEST(ByteSet, containsAndMeets) {
  ByteSet set;
  set.add({8, 16});
  EXPECT_TRUE(set.contains({8, 16}));
  EXPECT_FALSE(set.contains({7, 9}));
  EXPECT_TRUE(set.contains({20, 20})) << "nothing is everywhere";
  EXPECT_TRUE(set.meets({0, 9}));
  EXPECT_FALSE(set.meets({0, 8}));
  EXPECT_FALSE(set.meets({16, 20}));
}

TEST(ByteMap, cutsAtTheEndsOfRanges) {
  ByteMap<int> map(32, 0);
  map.set({8, 16}, 1);
  map.set({12, 20}, 2);
  std::vector<std::pair<int64_t, int>> parts(map.parts().begin(), map.parts().end());
  EXPECT_EQ(parts, (std::vector<std::pair<int64_t, int>>{{0, 0}, {8, 1}, {12, 2}, {20, 0}}));
  int sum = 0;
  map.forEach({10, 32}, [&](ByteInterval range, int value) { sum += value * int(range.end - range.begin); });
  EXPECT_EQ(sum, 2 * 1 + 8 * 2);
  map.set({30, 32}, 5);
  map.set({4, 4}, 7);
  EXPECT_EQ(map.parts().at(30), 5);
  EXPECT_EQ(map.parts().count(4), 0u);
}

TEST(ByteMap, mergesEqualNeighbours) {
  ByteMap<int> map(32, 0);
  for (int64_t begin : {8, 12, 16})
    map.merge({begin, begin + 4}, 1);
  map.merge({4, 4}, 7);
  EXPECT_EQ(map.parts(), (std::map<int64_t, int>{{0, 0}, {8, 1}, {20, 0}}));
  map.merge({8, 24}, 0);
  EXPECT_EQ(map.parts(), (std::map<int64_t, int>{{0, 0}}));
  map.merge({24, 32}, 1);
  EXPECT_EQ(map.parts(), (std::map<int64_t, int>{{0, 0}, {24, 1}}));
}

TEST(ByteMap, looksNoFurtherThanItMust) {
  ByteMap<int> map(32, 0);
  map.set({8, 16}, 1);
  int seen = 0;
  const auto isZero = [&](ByteInterval, int value) { return ++seen, value == 0; };
  EXPECT_FALSE(map.all({4, 32}, isZero));
  EXPECT_EQ(seen, 2);
  EXPECT_TRUE(map.all({16, 32}, isZero));
  EXPECT_TRUE(map.all({0, 8}, isZero));
  EXPECT_TRUE(map.all({9, 9}, isZero));
}

TEST(Completed, runsOfAStreamCompleteInOrderAndMessagesDoNot) {
  Completed known, other;
  known.add(StepStream::compute, 7);
  known.add(StepStream::message, 5);
  EXPECT_TRUE(known.has(StepStream::compute, 3));
  EXPECT_FALSE(known.has(StepStream::compute, 8));
  EXPECT_FALSE(known.has(StepStream::gradients, 3));
  EXPECT_FALSE(known.has(StepStream::message, 4));
  other.add(StepStream::message, 4);
  other.add(StepStream::gradients, 6);
  known.join(other);
  EXPECT_EQ(known.messages(), (std::vector<int64_t>{4, 5}));
  EXPECT_TRUE(known.has(StepStream::gradients, 6));
}

// --- Programs ----------------------------------------------------------------------------------------------

constexpr int64_t kLine = 64;

struct Step {
  std::vector<RowKernel::Operand> uses;
  std::vector<Operand> operands;
};

Program programOf(const std::vector<Step> &steps) {
  Program program;
  program.name = "p";
  program.segments = {"in", "out", "frame"};
  program.segmentBytes = {4 * kLine, 4 * kLine, 4 * kLine};
  program.frame = 2;
  for (const Step &step : steps) {
    RowKernel kernel;
    kernel.symbol = "k";
    kernel.uses = step.uses;
    program.instructions.push_back({kernel, step.operands, "p/" + std::to_string(program.instructions.size())});
  }
  return program;
}

const RowKernel::Operand kRead{OperandUse::read, kLine}, kWritten{OperandUse::written, kLine},
    kUpdated{OperandUse::updated, kLine};

std::string problemOf(const Program &program) {
  Problems problems;
  flowOf(Plan(), program, {0, 1, 2}, problems);
  return problems.status().isOk() ? "" : problems.status().message();
}

TEST(ProgramFlow, readsBeforeWritesAreTheCallers) {
  Problems problems;
  const Program program = programOf({{{kRead, kWritten}, {{0, 0}, {2, 0}}}, {{kRead, kUpdated}, {{2, 0}, {1, kLine}}}});
  const ProgramFlow flow = flowOf(Plan(), program, {0, 1, 2}, problems);
  EXPECT_EQ(problems.count(), 0u);
  EXPECT_EQ(flow.segments[0].reads.ranges(), (Ranges{{0, kLine}}));
  EXPECT_EQ(flow.segments[1].reads.ranges(), (Ranges{{kLine, 2 * kLine}})) << "it is added to";
  EXPECT_EQ(flow.segments[1].writes.ranges(), (Ranges{{kLine, 2 * kLine}}));
  EXPECT_TRUE(flow.segments[2].reads.ranges().empty());
}

TEST(ProgramFlow, theFrameIsWrittenBeforeItIsRead) {
  EXPECT_EQ(problemOf(programOf({{{kRead, kWritten}, {{2, kLine}, {1, 0}}}})),
            "program 'p': p/0: operand of the kernel, bytes [64, 128) of segment 'frame', reads bytes of the frame "
            "that no instruction wrote");
}

TEST(ProgramFlow, aValueIsNotReadAfterAnotherTookItsPlace) {
  const auto program = [](int64_t place) { // values 1 and 2 in the frame; then 1 is read
    return programOf({{{kRead, kWritten}, {{0, 0}, {2, 0, 0, 1}}},
                      {{kRead, kWritten}, {{0, 0}, {2, place, 0, 2}}},
                      {{kRead, kWritten}, {{2, 0, 0, 1}, {1, 0}}}});
  };
  EXPECT_EQ(problemOf(program(kLine)), "");
  EXPECT_EQ(problemOf(program(0)),
            "program 'p': p/2: operand of the kernel, bytes [0, 64) of segment 'frame', reads bytes of another value");
}

// --- Chunks: calls of one program, which reads `in` and writes `out`; [0, 1024) of the allocation is the frame.

std::string problemOfCalls(const std::vector<std::pair<int64_t, int64_t>> &inAndOut, Task task = Task::begin,
                           const char *region = "activations") {
  Plan plan;
  Program program = programOf({{{kRead, kWritten}, {{0, 0}, {1, 0}}}});
  program.segments.pop_back();
  program.segmentBytes.pop_back();
  program.frame = -1;
  plan.programs = {program};
  StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 2048;
  stage.regions = {{"frame", 0, 1024}, {region, 1024, 1024}};
  Chunk &chunk = stage.chunks.emplace_back();
  chunk.task = task;
  for (const auto &[in, out] : inAndOut) {
    Call &call = chunk.calls.emplace_back();
    call.segments = {{.slot = -1, .offset = in}, {.slot = -1, .offset = out}};
  }
  Problems problems;
  Flows(plan, problems).of(0, 0, 0, std::ssize(inAndOut));
  return problems.status().isOk() ? "" : problems.status().message();
}

TEST(ChunkFlow, aCallReadsOfTheFrameWhatTheCallBeforeItWrote) {
  EXPECT_EQ(problemOfCalls({{1024, 0}, {0, 1536}}), "");
  EXPECT_EQ(
      problemOfCalls({{1024, 0}, {512, 1536}}),
      "stage 0 chunk begin call 1 ('p'): reads bytes [512, 576) of the frame, which the call before it did not write");
  EXPECT_EQ(
      problemOfCalls({{0, 1536}, {1024, 0}}),
      "stage 0 chunk begin call 0 ('p'): reads bytes [0, 64) of the frame, which the call before it did not write")
      << "there is none";
}

TEST(ChunkFlow, aSegmentIsInTheFrameOrNot) {
  for (const auto &[in, out] : {std::pair<int64_t, int64_t>(1024, 992), {992, 1536}})
    EXPECT_NE(problemOfCalls({{in, out}}).find("uses bytes [992, 1056), some of them of the frame and some not"),
              std::string::npos);
}

TEST(ChunkFlow, theFrameIsOfTheRunsOfCompute) {
  EXPECT_NE(problemOfCalls({{1024, 0}, {0, 1536}}, Task::gradients).find("which the runs beside it use"),
            std::string::npos);
  EXPECT_EQ(problemOfCalls({{1024, 1536}}, Task::gradients), "");
}

TEST(ChunkFlow, aMicrobatchAddsToGradients) {
  EXPECT_EQ(problemOfCalls({{1024, 1536}}, Task::backward), "");
  EXPECT_EQ(problemOfCalls({{1024, 1536}}, Task::begin, "gradients"), "") << "it zeroes them";
  EXPECT_EQ(
      problemOfCalls({{1024, 1536}}, Task::backward, "gradients"),
      "stage 0 chunk backward.0 call 0 ('p'): writes gradients, bytes [1536, 1600), without adding to what is there");
}

// A matrix of 4 rows of 32 bytes, of which each of two instructions writes 16.
TEST(ProgramFlow, rowsThatAreWrittenApartAreReadWhenAllAre) {
  const RowKernel::Operand half{OperandUse::written, kLine, 16, 32}, whole{OperandUse::read, 2 * kLine};
  const Step left{{kRead, half}, {{0, 0}, {2, 0, 0, 1}}}, right{{kRead, half}, {{0, 0}, {2, 16, 0, 1}}},
      all{{whole, kWritten}, {{2, 0, 0, 1}, {1, 0}}};
  EXPECT_EQ(problemOf(programOf({left, right, all})), "");
  EXPECT_EQ(problemOf(programOf({left, right, right, all})), "");
  EXPECT_NE(problemOf(programOf({left, all})), "");
  const RowKernel::Operand readLeft{OperandUse::read, kLine, 16, 32};
  EXPECT_EQ(problemOf(programOf({left, {{readLeft, kWritten}, {{2, 0, 0, 1}, {1, 0}}}})), "");
  // Reads the right half, up to where the left one ends.
  const RowKernel::Operand three{OperandUse::read, 48, 16, 32};
  EXPECT_NE(problemOf(programOf({left, {{three, kWritten}, {{2, 16, 0, 1}, {1, 0}}}}))
                .find("reads rows of which no instruction wrote all"),
            std::string::npos);
}

TEST(ProgramFlow, rowsMayGoOnBehindAMultipleOfTheirStride) {
  const RowKernel::Operand written{OperandUse::written, 48, 16, 32}, read{OperandUse::read, 48, 16, 32};
  const Step writes{{kRead, written}, {{0, 0}, {2, 24, 0, 1}}};
  const auto reads = [&](int64_t offset) { return Step{{read, kWritten}, {{2, offset, 0, 1}, {1, 0}}}; };
  EXPECT_EQ(problemOf(programOf({writes, reads(24)})), "");
  EXPECT_NE(problemOf(programOf({writes, reads(32)})), "") << "other columns of the same rows";
}

TEST(ProgramFlow, columnsAreThoseOfTheirRowsAndOfNoOthers) {
  const RowKernel::Operand half{OperandUse::written, 32, 16, 32}, all{OperandUse::read, 2 * kLine};
  const auto writes = [&](int64_t offset) { return Step{{kRead, half}, {{0, 0}, {2, offset, 0, 1}}}; };
  const Step whole{{kRead, kWritten}, {{0, 0}, {2, 0, 0, 1}}};
  const auto readBy = [&](int64_t value) { return Step{{all, kWritten}, {{2, 0, 0, value}, {1, 0}}}; };
  EXPECT_EQ(problemOf(programOf({writes(0), writes(16), writes(64), writes(80), readBy(1)})), "");
  for (int64_t value : {1, -1})
    EXPECT_NE(problemOf(programOf({writes(0), writes(80), readBy(value)})), "") << "left above, right below";
  EXPECT_NE(problemOf(programOf({writes(64), whole, readBy(1)})), "") << "the lower rows have their left half only";
}

TEST(ProgramFlow, whatACallerGetsHasAllColumns) {
  const RowKernel::Operand half{OperandUse::written, kLine, 16, 32}, added{OperandUse::updated, kLine, 16, 32};
  const auto writes = [](const RowKernel::Operand &how, int64_t offset) {
    return Step{{kRead, how}, {{0, 0}, {1, offset, 0, 1}}};
  };
  EXPECT_EQ(problemOf(programOf({writes(half, 0), writes(half, 16)})), "");
  EXPECT_EQ(problemOf(programOf({writes(half, 0)})),
            "program 'p': writes columns of rows of segment 'out' and leaves others out");
  EXPECT_EQ(problemOf(programOf({writes(added, 0)})), "") << "the others are the caller's";
}

// An operand with 64 bytes of rows of which only the existing rows were written: whoever reads them counts them too.
const RowKernel::Operand kCountedRead{OperandUse::read, kLine, 0, 0, true},
    kCountedWritten{OperandUse::written, kLine, 0, 0, true};

TEST(ProgramFlow, countedRowsAreReadCounted) {
  const auto program = [](const RowKernel::Operand &writes, const RowKernel::Operand &reads) {
    return programOf({{{kRead, writes}, {{0, 0}, {2, 0, 0, 1}}}, {{reads, kWritten}, {{2, 0, 0, 1}, {1, 0}}}});
  };
  EXPECT_EQ(problemOf(program(kCountedWritten, kCountedRead)), "");
  EXPECT_EQ(problemOf(program(kWritten, kCountedRead)), "") << "all are there";
  EXPECT_EQ(problemOf(program(kCountedWritten, kRead)),
            "program 'p': p/1: operand of the kernel, bytes [0, 64) of segment 'frame', reads rows behind the last "
            "one, of which only those that there are were written");
  Program again = program(kCountedWritten, kRead); // written whole in between
  Program whole = program(kWritten, kRead);
  again.instructions.insert(again.instructions.begin() + 1, whole.instructions.front());
  EXPECT_EQ(problemOf(again), "");
}

// Counts of four groups; a product of three of them leaves rows of the last group out.
TEST(ProgramFlow, countsAreReadWhole) {
  const auto program = [](int64_t groups) {
    Program program = programOf({{{}, {{0, 0}, {2, 0, 0, 1}, {2, kLine, 0, 2}, {2, 2 * kLine, 0, 3}}},
                                 {{}, {{0, 0}, {0, kLine}, {2, 0, 0, 1}, {1, 0, 0, 4}}}});
    program.instructions[0].body = GroupRows{.groups = 4, .rows = 8, .places = 8};
    program.instructions[1].body = GroupedGemm{.groups = groups, .rows = 8, .n = 1, .k = 1};
    return program;
  };
  EXPECT_EQ(problemOf(program(4)), "");
  EXPECT_EQ(problemOf(program(3)), "program 'p': p/1: operand counts, bytes [0, 12) of segment 'frame', is not all of "
                                   "its value: the counts of all groups");
}

// A sum over ranks of counted rows is one of counted rows.
TEST(ProgramFlow, elementwiseInstructionsLeaveRowsCounted) {
  for (const RowKernel::Operand &reads : {kCountedRead, kRead}) {
    Program program = programOf({{{kRead, kCountedWritten}, {{0, 0}, {2, 0, 0, 1}}},
                                 {{}, {{2, 0, 0, 1}, {2, kLine, 0, 2}}},
                                 {{reads, kWritten}, {{2, kLine, 0, 2}, {1, 0}}}});
    program.instructions[1].body = Collective{.kind = Collective::Kind::allReduce, .chunk = kLine / 4};
    EXPECT_EQ(problemOf(program).empty(), reads.counted) << problemOf(program);
    program.instructions[1].body = Move{.kind = Move::Kind::demote, .bytes = kLine};
    EXPECT_EQ(problemOf(program).empty(), reads.counted) << problemOf(program);
  }
}

TEST(ProgramFlow, saysWhatIsCountedForItsCaller) {
  Problems problems;
  const ProgramFlow flow = flowOf(
      Plan(),
      programOf({{{kCountedRead, kCountedWritten}, {{0, 0}, {1, 0}}}, {{kRead, kWritten}, {{0, kLine}, {1, kLine}}}}),
      {0, 1, 2}, problems);
  EXPECT_EQ(flow.segments[0].wholeReads.ranges(), (Ranges{{kLine, 2 * kLine}}));
  EXPECT_EQ(flow.segments[1].countedWrites.ranges(), (Ranges{{0, kLine}}));
}

// Two programs, of which one writes what the other reads.
Plan writerAndReader(bool writesCounted, bool readsCounted) {
  Plan plan;
  for (const Step &step : {Step{{kRead, writesCounted ? kCountedWritten : kWritten}, {{0, 0}, {1, kLine}}},
                           Step{{readsCounted ? kCountedRead : kRead, kWritten}, {{1, kLine}, {0, 0}}}}) {
    Program &program = plan.programs.emplace_back(programOf({step}));
    program.segments.pop_back(), program.segmentBytes.pop_back(), program.frame = -1;
  }
  return plan;
}

// They do so in a ring's slot.
std::string problemOfRing(bool writesCounted, bool readsCounted) {
  Plan plan = writerAndReader(writesCounted, readsCounted);
  StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 2048;
  stage.rings.push_back({.name = "saved", .bytes = 4 * kLine});
  for (int64_t i = 0; i < 2; ++i) {
    Chunk &chunk = stage.chunks.emplace_back();
    chunk.task = i == 0 ? Task::forward : Task::backward;
    chunk.slots = {0};
    Call &call = chunk.calls.emplace_back();
    call.program = i;
    call.segments = {{.slot = -1, .offset = 1024}, {.slot = 0, .offset = 0}};
  }
  Problems problems;
  Flows flows(plan, problems);
  verifyCountedRows(plan, flows, problems);
  return problems.status().isOk() ? "" : problems.status().message();
}

TEST(CountedRows, ofASlotAreReadCounted) {
  EXPECT_EQ(problemOfRing(true, true), "");
  EXPECT_EQ(problemOfRing(false, false), "");
  EXPECT_EQ(problemOfRing(true, false), "stage 0: bytes [64, 128) of 'saved' are read with the rows behind the last "
                                        "one, of which only those that there are were written");
}

// A forward copies what it makes in transient memory to the host, a backward copies it to there again and reads it.
std::string problemOfCopies(bool writesCounted, bool readsCounted) {
  constexpr int64_t kBytes = 4 * kLine, kStaged = 512, kOther = 1024;
  Plan plan = writerAndReader(writesCounted, readsCounted);
  for (const HostCopy::Direction direction : {HostCopy::Direction::out, HostCopy::Direction::in})
    plan.programs.push_back({.segments = {"from", "to"},
                             .segmentBytes = {kBytes, kBytes},
                             .instructions = {{HostCopy{direction, kBytes}, {{0, 0}, {1, 0}}, "copy"}}});
  StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 2048, stage.hostBytes = kBytes;
  stage.regions = {{std::string(kTransient), kStaged, kBytes}};
  stage.rings.push_back({.name = "offloaded", .bytes = kBytes, .offset = stage.bytes});
  const Binding staged{.slot = -1, .offset = kStaged}, other{.slot = -1, .offset = kOther},
      host{.slot = 0, .offset = 0};
  stage.chunks.push_back({.task = Task::forward, .slots = {0}});
  stage.chunks.back().calls = {{.program = 0, .segments = {other, staged}}, {.program = 2, .segments = {staged, host}}};
  stage.chunks.push_back({.task = Task::backward, .slots = {0}});
  stage.chunks.back().calls = {{.program = 3, .segments = {host, staged}}, {.program = 1, .segments = {other, staged}}};
  Problems problems;
  Flows flows(plan, problems);
  verifyCountedRows(plan, flows, problems);
  return problems.status().isOk() ? "" : problems.status().message();
}

TEST(CountedRows, areCarriedToTheHostAndBack) {
  EXPECT_EQ(problemOfCopies(true, true), "");
  EXPECT_EQ(problemOfCopies(false, false), "");
  EXPECT_EQ(problemOfCopies(true, false), "stage 0: bytes [576, 640) of the transient memory are read with the rows "
                                          "behind the last one, of which only those that there are were written");
}

TEST(ProgramFlow, segmentsInTheSamePlaceAreOne) {
  Problems problems;
  const Program program =
      programOf({{{kRead, kWritten}, {{0, 0, 0, 1}, {1, 0, 0, 2}}}, {{kRead, kWritten}, {{0, 0, 0, 1}, {2, 0}}}});
  flowOf(Plan(), program, {0, 1, 2}, problems);
  EXPECT_EQ(problems.count(), 0u);
  flowOf(Plan(), program, {0, 0, 2}, problems);
  EXPECT_EQ(problems.count(), 1u) << "in is read after out, in its place, was written";
}

} // namespace
} // namespace mgc::plan
