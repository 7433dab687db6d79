// Copies between host and device beside the update of pieces, worked out on paper.
#include "plan/cost/HostCopyTime.h"
#include "test/plan/cost/ToyMachine.h"

#include <gtest/gtest.h>

namespace mgc::cost {
namespace {

using Direction = plan::HostCopy::Direction;

// Programs 0 and 1 copy 10 bytes in and out, 2 s each on the toy machine; program 2 updates a staging buffer.
plan::Plan makePlan() {
  plan::Plan plan;
  for (const Direction direction : {Direction::in, Direction::out})
    plan.programs.push_back({.segments = {"from", "to"},
                             .segmentBytes = {10, 10},
                             .instructions = {{plan::HostCopy{direction, 10}, {{0, 0}, {1, 0}}, "copy"}}});
  plan.programs.push_back({.segments = {"staged"}, .segmentBytes = {10}});
  return plan;
}

// In, update and out of so many pieces, by buffers in turn; the copy in of a piece comes before the update of the one before.
plan::Chunk makeUpdate(int64_t pieces, int64_t buffers) {
  plan::Chunk chunk{.task = plan::Task::update};
  const auto copyIn = [&](int64_t i) {
    if (i < pieces)
      chunk.calls.push_back({.program = 0, .segments = {{-1, 1000 + 10 * i}, {-1, i % buffers * 10}}});
  };
  copyIn(0);
  for (int64_t i = 0; i < pieces; ++i) {
    copyIn(i + 1);
    chunk.calls.push_back({.program = 2, .segments = {{-1, i % buffers * 10}}});
    chunk.calls.push_back({.program = 1, .segments = {{-1, i % buffers * 10}, {-1, 1000 + 10 * i}}});
  }
  return chunk;
}

HostCopyTime timeOf(const plan::Chunk &chunk, double update, const plan::StagePlan &stage = {}) {
  const Machine machine = makeToyMachine();
  const Cluster cluster{machine, {}, plan::Target::cuda};
  std::vector<ProgramTime> programs(3);
  programs[2].rows = update;
  return hostCopyTime(cluster, makePlan(), stage, chunk, programs);
}

// Slots of two rings do not meet, though their offsets are the same: a call that reads one waits for no copy of the other.
TEST(HostCopyTime, SlotsAreApart) {
  const plan::StagePlan stage{.rings = {{.offset = 5000, .bytes = 100}, {.offset = 6000, .bytes = 100}}};
  plan::Chunk chunk{.task = plan::Task::backward, .slots = {0, 1}};
  chunk.calls.push_back({.program = 0, .segments = {{0, 0}, {-1, 0}}});
  chunk.calls.push_back({.program = 2, .segments = {{1, 0}}});
  EXPECT_DOUBLE_EQ(timeOf(chunk, 2, stage).exposed, 0);
  chunk.calls.back().segments = {{0, 0}};
  EXPECT_DOUBLE_EQ(timeOf(chunk, 2, stage).exposed, 2);
}

// One piece: nothing is beside anything.
TEST(HostCopyTime, OnePieceIsExposed) {
  const HostCopyTime time = timeOf(makeUpdate(1, 2), 0.5);
  EXPECT_DOUBLE_EQ(time.exposed, 4);
  EXPECT_DOUBLE_EQ(time.hidden, 0);
}

//   in       0-2  2-4          4.5-6.5    7-9
//   update        2-2.5        4.5-5      7-7.5    9-9.5
//   out             2.5-4.5      5-7        7.5-9.5  9.5-11.5
// Piece 2 comes into the buffer of piece 0 when that is copied out, at 4.5; piece 3 at 7.
TEST(HostCopyTime, DirectionsRunAtTheSameTime) {
  const HostCopyTime time = timeOf(makeUpdate(4, 2), 0.5);
  EXPECT_DOUBLE_EQ(time.exposed, 11.5 - 4 * 0.5);
  EXPECT_DOUBLE_EQ(time.exposed + time.hidden, 4 * 4);
}

// All pieces by one buffer wait for each other.
TEST(HostCopyTime, OneBufferHidesNothing) {
  plan::Chunk chunk{.task = plan::Task::update};
  for (int64_t i = 0; i < 3; ++i) {
    chunk.calls.push_back({.program = 0, .segments = {{-1, 1000 + 10 * i}, {-1, 0}}});
    chunk.calls.push_back({.program = 2, .segments = {{-1, 0}}});
    chunk.calls.push_back({.program = 1, .segments = {{-1, 0}, {-1, 1000 + 10 * i}}});
  }
  const HostCopyTime time = timeOf(chunk, 0.5);
  EXPECT_DOUBLE_EQ(time.exposed, 12);
}

// An update that takes longer than copies hides half of them: the calls behind a copy in wait, as it does, for the copy out of
// what was in its buffer. With a third buffer only the first copy in and the last copy out are waited for.
TEST(HostCopyTime, LongUpdatesHideCopies) {
  EXPECT_DOUBLE_EQ(timeOf(makeUpdate(4, 2), 100).exposed, 2 + 2 * 2 + 2);
  EXPECT_DOUBLE_EQ(timeOf(makeUpdate(4, 3), 100).exposed, 2 + 2);
}

// Bytes are waited for until they were; copies that many calls wait for are no more work than others.
TEST(HostCopyTime, AllAtOnce) {
  constexpr int64_t kPieces = 100'000;
  plan::Chunk chunk{.task = plan::Task::update};
  for (int64_t i = 0; i < kPieces; ++i)
    chunk.calls.push_back({.program = 0, .segments = {{-1, 1000 + 10 * (kPieces + i)}, {-1, 10 * i}}});
  for (int64_t i = 0; i < kPieces; ++i)
    chunk.calls.push_back({.program = 2, .segments = {{-1, 10 * i}}});
  const HostCopyTime time = timeOf(chunk, 1);
  EXPECT_DOUBLE_EQ(time.exposed, kPieces + 1) << "updates follow copies, of which each takes 2 s";
  EXPECT_DOUBLE_EQ(time.hidden, kPieces - 1);
}

TEST(HostCopyTime, NoneWithoutCopies) {
  plan::Chunk chunk{.task = plan::Task::update};
  chunk.calls.push_back({.program = 2, .segments = {{-1, 0}}});
  EXPECT_DOUBLE_EQ(timeOf(chunk, 1).exposed, 0);
}

} // namespace
} // namespace mgc::cost
