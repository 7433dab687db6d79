// The bubble of each schedule against its formula, and the picture.
#include "plan/play/Picture.h"
#include "plan/play/Player.h"
#include "plan/play/SolutionLists.h"

#include "test/compiler/schedule/Sweep.h"

#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

Played timeOf(const std::string &name, Shape shape, ChunkCost cost) {
  Problem problem = uniformProblem(name, shape, kSizes);
  Result<Solution> solution = generate(problem);
  Costs costs;
  costs.chunks.assign(shape.chunks(), cost);
  return play(listsOf(*solution, costs));
}

// Fraction of makespan x stages.
double bubbleOf(const Played &played) {
  double busy = 0;
  for (double seconds : played.busy)
    busy += seconds;
  return 1 - busy / (played.makespan * double(played.busy.size()));
}

std::string pictureOf(const std::string &name, Shape shape, int64_t columns = 200) {
  return draw(listsOf(*generate(uniformProblem(name, shape, kSizes))), shape.virtualStages, columns);
}

TEST(Timing, GpipeAnd1f1bHaveTheKnownBubble) {
  for (const char *name : {"gpipe", "1f1b"})
    for (int64_t pp = 1; pp <= 6; ++pp)
      for (int64_t m = 1; m <= 12; ++m)
        for (double backward : {1.0, 2.0}) {
          const Played timing = timeOf(name, {pp, 1, m}, {1, backward, 0, 0});
          EXPECT_NEAR(bubbleOf(timing), double(pp - 1) / double(m + pp - 1), 1e-9) << name << " " << pp << " " << m;
          EXPECT_NEAR(timing.makespan, double(m + pp - 1) * (1 + backward), 1e-9);
        }
}

TEST(Timing, InterleavingDividesTheBubble) { // (pp - 1) / v instead of pp - 1 microbatches
  for (int64_t pp = 2; pp <= 5; ++pp)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = pp; m <= 4 * pp; m += pp) {
        const Played timing = timeOf("interleaved", {pp, v, m}, {1.0 / double(v), 2.0 / double(v), 0, 0});
        double bubble = double(pp - 1) / double(v);
        EXPECT_NEAR(timing.makespan, 3 * (double(m) + bubble), 1e-9) << pp << " " << v << " " << m;
      }
}

TEST(Timing, InterleavingIsNeverSlowerThanThePaddedNumberOfMicrobatches) {
  for (int64_t pp = 2; pp <= 6; ++pp)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = 1; m <= 12; ++m) {
        double padded = double((m + pp - 1) / pp * pp) + double(pp - 1) / double(v);
        double makespan = timeOf("interleaved", {pp, v, m}, {1.0 / double(v), 2.0 / double(v), 0, 0}).makespan;
        EXPECT_LE(makespan, 3 * padded + 1e-9) << pp << " " << v << " " << m;
      }
}

TEST(Timing, ZeroBubbleH1HasAThird) { // (pp - 1)(F + I - W) instead of (pp - 1)(F + I + W)
  for (int64_t pp = 2; pp <= 6; ++pp)
    for (int64_t m = 1; m <= 12; ++m) {
      double h1 = timeOf("zb-h1", {pp, 1, m}, {1, 2, 1, 1}).makespan;
      double plain = timeOf("1f1b", {pp, 1, m}, {1, 2, 1, 1}).makespan;
      EXPECT_LT(h1, plain) << pp << " " << m;
      if (m >= pp) {
        EXPECT_NEAR(h1, 3 * double(m) + double(pp - 1), 1e-9) << pp << " " << m;
      }
    }
}

// Where all tasks take a unit, a chunk's: zb-v idles while its first microbatch comes to the last stage, v-half twice as long as
// 1F1B at most: half as long, as 1F1B's chunks are twice as large.
TEST(Timing, SchedulesInAV) {
  for (int64_t pp = 2; pp <= 8; ++pp)
    for (int64_t m = 2 * pp; m <= 24; m += 3) {
      EXPECT_NEAR(timeOf("zb-v", {pp, 2, m}, {1, 2, 1, 1}).makespan, double(6 * m + pp - 1), 1e-9) << pp << " " << m;
      EXPECT_LE(timeOf("v-half", {pp, 2, m}, {1, 2, 1, 1}).makespan, double(6 * m + 3 * pp)) << pp << " " << m;
    }
}

// Chunks of F 1 and B 2, pairs of P: a step has 2 M - (pp + 2) of them, and 8 pp of work before and after them. A pair
// of F + B leaves (5 pp - 6) F.
TEST(Timing, DualPipeVHidesWhatItsPairsDo) {
  for (int64_t pp = 2; pp <= 6; ++pp)
    for (int64_t m = 2 * pp; m <= 24; m += 3)
      for (double pair : {3.0, 2.5, 2.0}) {
        Result<Solution> solution = generate(uniformProblem("dualpipev", {pp, 2, m}, kSizes));
        Costs costs;
        for (int64_t chunk = 0; chunk < 2 * pp; ++chunk)
          costs.pairs[{std::pair(TaskKind::forward, chunk), std::pair(TaskKind::backward, 2 * pp - 1 - chunk)}] = pair;
        EXPECT_NEAR(play(listsOf(*solution, costs)).makespan, double(2 * m - pp - 2) * pair + double(8 * pp), 1e-9)
            << pp << " " << m << " " << pair;
      }
}

TEST(Timing, MessagesAndOnceTasksTakeTime) {
  Result<Solution> solution = generate(uniformProblem("1f1b", {2, 1, 1}, kSizes));
  Costs costs;
  costs.begin = 1;
  costs.reduce = 5;
  costs.update = 7;
  costs.messageLatency = 0.5;
  costs.secondsPerByte = 0.001;
  double activation = 0.5 + 0.256, gradient = 0.5 + 0.320;
  // begin, F, activation, F B on stage 1, gradient, B, reduce and update together
  EXPECT_NEAR(play(listsOf(*solution, costs)).makespan, 1 + 1 + activation + 1 + 2 + gradient + 2 + 5 + 7, 1e-9);
}

TEST(Timing, UnequalChunksMakeTheSlowestTheClock) {
  Result<Solution> solution = generate(uniformProblem("1f1b", {3, 1, 12}, kSizes));
  Costs costs;
  costs.chunks = {{1, 2, 1, 1}, {2, 4, 2, 2}, {1, 2, 1, 1}};
  const Played timing = play(listsOf(*solution, costs));
  EXPECT_GE(timing.makespan, 12 * 6);
  EXPECT_LT(timing.waitingOf(1), timing.waitingOf(0));
}

TEST(Timing, Picture) {
  EXPECT_EQ(pictureOf("gpipe", {2, 1, 4}), "stage 0 |F0 F1 F2 F3          B0 .  B1 .  B2 .  B3 .\n"
                                           "stage 1 |   F0 F1 F2 F3 B0 .  B1 .  B2 .  B3 .\n");
  EXPECT_EQ(pictureOf("1f1b", {2, 1, 4}), "stage 0 |F0 F1       B0 .  F2 B1 .  F3 B2 .     B3 .\n"
                                          "stage 1 |   F0 B0 .  F1 B1 .  F2 B2 .  F3 B3 .\n");
  EXPECT_EQ(pictureOf("zb-h1", {2, 1, 4}), "stage 0 |F0 F1    I0 W0 F2 I1 W1 F3 I2 W2 I3 W3\n"
                                           "stage 1 |   F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3\n");
  EXPECT_EQ(pictureOf("interleaved", {2, 2, 2}), "stage 0 |F0a F1a F0b F1b         B0b .       B1b .   B0a .   B1a .\n"
                                                 "stage 1 |    F0a F1a F0b B0b .   F1b B1b .   B0a .   B1a .\n");
}

TEST(Timing, PictureOfAV) {
  EXPECT_EQ(pictureOf("zb-v", {2, 2, 4}),
            "stage 0 |F0a F1a F2a F0b I0b W0b F1b I1b W1b F3a I0a W0a F2b I2b W2b I1a W1a F3b I3b W3b "
            "I2a W2a I3a W3a\n"
            "stage 1 |    F0a F0b F1a F1b I0b W0b F2a I0a W0a F2b I1b W1b F3a I1a W1a F3b I2b W2b I2a "
            "I3b I3a W2a W3b W3a\n");
}

TEST(Timing, PictureIsCut) {
  const std::string text = pictureOf("1f1b", {2, 1, 40}, 60), whole = pictureOf("1f1b", {2, 1, 40}, 1000);
  EXPECT_EQ(text.find("...\n"), 57u);
  EXPECT_EQ(text.substr(0, 57), whole.substr(0, 57));
  const size_t second = whole.find('\n') + 1;
  EXPECT_EQ(text.substr(61, 57), whole.substr(second, 57));
}

} // namespace
} // namespace mgc::schedule
