// Rings of hand-made buffers.
#include "compiler/schedule/Rings.h"

#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

using Turns = std::vector<plan::Ring::Turn>;

ScheduledBuffer buffer(int64_t chunk, int64_t microbatch, int64_t begin, int64_t end, int64_t bytes = 100) {
  ScheduledBuffer result;
  result.kind = BufferKind::activation;
  result.chunk = chunk, result.microbatch = microbatch, result.bytes = bytes;
  result.begin = begin, result.end = end;
  return result;
}

StageSchedule placed(std::vector<ScheduledBuffer> buffers, int64_t group = 1) {
  StageSchedule stage;
  stage.buffers = std::move(buffers);
  const Status status = placeBuffers(stage, group);
  EXPECT_TRUE(status.isOk()) << status.message();
  return stage;
}

TEST(Rings, HaveASlotForEachThatLives) {
  const StageSchedule stage = placed({buffer(0, 0, 0, 5), buffer(0, 1, 1, 7), buffer(0, 2, 5, 9), buffer(0, 3, 7, 11)});
  ASSERT_EQ(stage.rings.size(), 1u);
  EXPECT_EQ(stage.rings[0].name, "activation.0");
  EXPECT_EQ(stage.rings[0].turns, (Turns{{0, 2, 0}}));
  EXPECT_EQ(stage.rings[0].stride, 128);
  EXPECT_EQ(stage.bytes, 256);
  EXPECT_EQ(stage.buffers[2].offset, stage.buffers[0].offset);
  EXPECT_NE(stage.buffers[1].offset, stage.buffers[0].offset);
}

// While one chunk fills, the other drains: two slots, not three.
TEST(Rings, OfChunksShareSlots) {
  const StageSchedule stage =
      placed({buffer(0, 0, 0, 4), buffer(0, 1, 1, 5), buffer(1, 0, 4, 8), buffer(1, 1, 5, 9), buffer(0, 2, 8, 12),
              buffer(0, 3, 9, 13), buffer(1, 2, 12, 16), buffer(1, 3, 13, 17)},
             2);
  ASSERT_EQ(stage.rings.size(), 2u);
  EXPECT_EQ(stage.bytes, 256);
  EXPECT_EQ(stage.buffers[0].offset, stage.buffers[2].offset);
}

TEST(Rings, OfOtherSizesHaveSlotsOfTheirOwn) {
  const StageSchedule stage = placed({buffer(0, 0, 0, 4), buffer(1, 0, 1, 3, 60)});
  ASSERT_EQ(stage.rings.size(), 2u);
  EXPECT_EQ(stage.bytes, 128 + 64);
}

TEST(Rings, ThatLiveOneAfterAnotherHaveOneArea) {
  const StageSchedule stage = placed({buffer(0, 0, 0, 4), buffer(1, 0, 4, 8, 60)});
  EXPECT_EQ(stage.rings[0].offset, stage.rings[1].offset);
  EXPECT_EQ(stage.bytes, 128);
}

TEST(Rings, OfNoBuffers) {
  const StageSchedule stage = placed({});
  EXPECT_TRUE(stage.rings.empty());
  EXPECT_EQ(stage.bytes, 0);
}

} // namespace
} // namespace mgc::schedule
