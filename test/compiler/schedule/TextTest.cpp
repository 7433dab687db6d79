// Schedules as text: every row of the table reads back as itself; a text that is wrong is refused with its steps.
#include "compiler/schedule/Text.h"
#include "compiler/schedule/CheckOrders.h"
#include "test/compiler/schedule/Sweep.h"

#include <gtest/gtest.h>
#include <random>

namespace mgc::schedule {
namespace {

std::string errorOf(std::string_view text) {
  Result<ScheduleText> read = readScheduleText(text);
  return read.isOk() ? "" : read.status().message();
}

TEST(Text, EveryRowReadsBack) {
  sweep(5, 3, 9, [&](const ScheduleRow &row, const Problem &problem) {
    const std::vector<Order> orders = row.orders(problem);
    for (TextForm form : {TextForm::rows, TextForm::csv}) {
      const std::string text = writeScheduleText(problem.shape, orders, form);
      Result<ScheduleText> read = readScheduleText(text);
      ASSERT_TRUE(read.isOk()) << nameOf(problem) << "\n" << read.status().message() << "\n" << text;
      EXPECT_EQ(read->orders, orders);
      EXPECT_EQ(read->splitBackward, row.splitBackward);
      Shape shape = problem.shape;
      if (shape.stages == 1 || shape.virtualStages == 1) // both placements are the same
        shape.placement = ChunkPlacement::loop;
      EXPECT_EQ(read->shape, shape) << nameOf(problem);
      EXPECT_EQ(writeScheduleText(read->shape, read->orders, form), text);
    }
  });
}

TEST(Text, GivenOrdersMakeTheSolutionOfTheirRow) {
  sweep(4, 2, 6, [&](const ScheduleRow &row, const Problem &problem) {
    Problem given = problem;
    given.schedule = "file:mine.txt";
    given.orders = row.orders(problem);
    Result<Solution> own = generate(problem), solution = generate(given);
    ASSERT_TRUE(solution.isOk()) << solution.status().message();
    EXPECT_TRUE(prove(given, *solution).isOk()) << nameOf(problem);
    for (size_t stage = 0; stage < own->stages.size(); ++stage) {
      ASSERT_EQ(own->stages[stage].steps.size(), solution->stages[stage].steps.size());
      for (size_t i = 0; i < own->stages[stage].steps.size(); ++i)
        EXPECT_EQ(toString(own->stages[stage].steps[i]), toString(solution->stages[stage].steps[i]));
    }
  });
}

TEST(Text, AcceptsWhatPyTorchWrites) {
  Result<ScheduleText> read = readScheduleText("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1SEND_B0,1F1,1B1,\r\n");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->shape, (Shape{2, 1, 2}));
  EXPECT_EQ(writeScheduleText(read->shape, read->orders), "stage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n");
  read = readScheduleText("# a V\n\nrank 0: 0F0 3F0 3B0 0I0 0W0\nrank 1: 1F0 2F0 2B0 1B0");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->shape, (Shape{2, 2, 1, ChunkPlacement::v}));
  EXPECT_EQ(writeScheduleText(read->shape, read->orders),
            "stage 0: 0F0 3F0 3I0 3W0 0I0 0W0\nstage 1: 1F0 2F0 2I0 2W0 1I0 1W0\n");
}

TEST(Text, PairsAreOneWord) {
  for (const char *text : {"stage 0: F0 F1+B0 B1\n", "0F0,(0F1;0B0)OVERLAP_F_B,0B1"}) {
    Result<ScheduleText> read = readScheduleText(text);
    ASSERT_TRUE(read.isOk()) << read.status().message();
    ASSERT_EQ(read->orders[0].size(), 4u);
    EXPECT_FALSE(read->orders[0][1].paired);
    EXPECT_TRUE(read->orders[0][2].paired);
    EXPECT_EQ(writeScheduleText(read->shape, read->orders), "stage 0: F0 F1+B0 B1\n");
    EXPECT_EQ(writeScheduleText(read->shape, read->orders, TextForm::csv), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  }
  EXPECT_EQ(errorOf("stage 0: F0+B0"),
            "stage 0 step 1 B0 (line 1 column 13) is paired with stage 0 step 0 F0 (line 1 column 10); a pair is a "
            "forward and a backward, or a half of one, of two microbatches");
  EXPECT_NE(errorOf("stage 0: F0+F1 B0 B1").find("is paired with"), std::string::npos);
  // A pair waits for both of its runs: stage 1 cannot go back with 0 before stage 0 has sent 1.
  EXPECT_NE(errorOf("stage 0: F0 F1+B0 B1\nstage 1: F0 F1+B0 B1\n").find("the steps wait for each other"),
            std::string::npos);
}

TEST(Text, NamesTheStepsThatAreWrong) {
  EXPECT_EQ(errorOf("stage 0: F0 B0\nstage 1: B0 F0\n"),
            "stage 1 step 0 B0 (line 2 column 10) comes before F0 (step 1), which it needs");
  EXPECT_EQ(errorOf("stage 0: F0 F1 B1 B0\nstage 1: F0 B0 F1 B1\n"),
            "stage 0 step 2 B1 (line 1 column 16) comes before B0 (step 3); each chunk runs its microbatches in "
            "ascending order, in which gradients are added up");
  EXPECT_EQ(errorOf("stage 0: F1 F0 B0 B1\nstage 1: F0 B0 F1 B1\n"),
            "stage 0 step 0 F1 (line 1 column 10) comes before F0 (step 1); each chunk runs its microbatches in "
            "ascending order, in which gradients are added up");
  EXPECT_EQ(errorOf("stage 0: F0 F1 B0\nstage 1: F0 B0 F1 B1 B0\n"),
            "stage 0 has no B1\nstage 1 step 4 B0 (line 2 column 22) is there before, as step 1");
  EXPECT_EQ(errorOf("stage 0: F0 I0 W0 F1 I1\nstage 1: F0 I0 W0 F1 I1 W1\n"), "stage 0 has no W1");
  // Stage 1 goes back with microbatch 0 after the forward of 1, which stage 0 computes after its backward of 0.
  EXPECT_EQ(errorOf("stage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1\n"),
            "the steps wait for each other:\n"
            "  stage 0 step 1 B0 (line 1 column 13) waits for stage 1 step 2 B0 (line 2 column 16), which comes after "
            "stage 1 step 1 F1 (line 2 column 13)\n"
            "  stage 1 step 1 F1 (line 2 column 13) waits for stage 0 step 2 F1 (line 1 column 16), which comes after "
            "stage 0 step 1 B0 (line 1 column 13)");
  EXPECT_EQ(errorOf("stage 0: 0F0 0B0\nstage 1: 0F0 1B0\n"),
            "line 2 column 10: stage 1 has a task of chunk 0, which is on stage 0");
  EXPECT_NE(errorOf("stage 0: 0F0 2F0 0B0 2B0\nstage 1: 1F0 F0 1B0 3B0\n").find("\"F0\" has no chunk"),
            std::string::npos);
  EXPECT_NE(errorOf("0F0,1F0,2F0,2B0,1B0,0B0\n1F0,1B0").find("the chunks 0 to 2 on 2 stages"), std::string::npos);
}

TEST(Text, RefusesHostileText) {
  EXPECT_NE(errorOf("").find("has no tasks"), std::string::npos);
  EXPECT_NE(errorOf("# nothing\n\n").find("has no tasks"), std::string::npos);
  EXPECT_EQ(errorOf("stage 1: F0 B0"),
            "line 1 begins with \"stage 1\"; expected \"stage 0:\", as rows come in the order of stages");
  for (const char *word : {"F", "0F", "F-1", "X0", "F0x", "F99999999999999999999", "99999999999999999999F0", "-1F0",
                           "F0F0", "(0F0;1B0)", "0F0+", "(0F0)OVERLAP_F_B", "UNSHARD", "FB0"})
    EXPECT_NE(errorOf(fmt::format("stage 0: F0 {} B0", word)).find("line 1 column 13: \""), std::string::npos)
        << word << ": " << errorOf(fmt::format("stage 0: F0 {} B0", word));
  EXPECT_NE(errorOf(std::string_view("F0\0 B0", 6)).find("\"F0\\x00\" is no task"), std::string::npos);
  EXPECT_NE(errorOf("F9223372036854775807 B0").find("has a microbatch beyond the 2 tasks"), std::string::npos);
  EXPECT_NE(errorOf("9223372036854775807F0 B0").find("has a chunk beyond the 2 tasks"), std::string::npos);
  EXPECT_NE(errorOf(std::string(100000, 'F')).find("FFF... is no task") != std::string::npos ||
                errorOf(std::string(100000, 'F')).find("...\" is no task") != std::string::npos,
            false);
  std::string many; // a large microbatch and a large chunk: their product is not allocated
  for (int i = 0; i < 3000; ++i)
    many += " 0F0";
  EXPECT_NE(errorOf(many + " 2999F0 0F2999").find("the largest numbers in it"), std::string::npos);
  EXPECT_NE(errorOf(":::").find("line 1"), std::string::npos);
}

TEST(Text, GarbageIsAnErrorAndNoCrash) {
  std::mt19937 random(1);
  const std::string valid = "stage 0: 0F0 3F0 3B0 0B0\nstage 1: 1F0 2F0 2B0 1B0\n";
  for (int i = 0; i < 20000; ++i) {
    std::string text = valid;
    for (int change = 0; change < 1 + i % 4; ++change)
      text[random() % text.size()] = i % 2 ? char(random()) : "0123FBIW ,:\n"[random() % 12];
    (void)readScheduleText(text);
  }
}

TEST(Text, EverySwapOfDependentStepsIsRefused) {
  sweep(3, 2, 4, [&](const ScheduleRow &row, const Problem &problem) {
    std::vector<Order> orders = row.orders(problem);
    for (Order &order : orders)
      for (size_t i = 0; i < order.size(); ++i)
        for (size_t j = i + 1; j < order.size(); ++j)
          if (order[i].chunk == order[j].chunk && order[i].microbatch == order[j].microbatch) {
            std::swap(order[i], order[j]);
            EXPECT_FALSE(readScheduleText(writeScheduleText(problem.shape, orders)).isOk()) << nameOf(problem);
            EXPECT_FALSE(checkOrders(problem.shape, orders).isOk());
            std::swap(order[i], order[j]);
          }
  });
}

} // namespace
} // namespace mgc::schedule
