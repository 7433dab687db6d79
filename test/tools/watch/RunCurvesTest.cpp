// The points of curves: which lines of a log they are, and how many.
#include "tools/watch/RunCurves.h"

#include "test/runtime/TempDir.h"

#include <gtest/gtest.h>

namespace mgc::tools {
namespace {

using test::fails;
using test::isOk;

std::string stepLine(int64_t step, int64_t loss) { return fmt::format("{{\"step\":{},\"loss\":{}}}", step, loss); }
std::string validationLine(int64_t step, int64_t loss) {
  return fmt::format("{{\"step\":{},\"validation_loss\":{}}}", step, loss);
}

// Lines of the steps [begin, end) of one run, with a validation loss after each step whose successor is a multiple of `interval`.
std::string stepsOf(int64_t begin, int64_t end, int64_t loss, int64_t interval = 0) {
  std::string text;
  for (int64_t step = begin; step < end; ++step) {
    text += stepLine(step, loss) + "\n";
    if (interval > 0 && (step + 1) % interval == 0)
      text += validationLine(step, loss) + "\n";
  }
  return text;
}

class Curves : public testing::Test {
protected:
  Status read(const std::string &text, int64_t step) { return curves.readLog(folder.write("log.jsonl", text), step); }
  // Points as "step:loss".
  std::string points() const {
    std::string text;
    for (const auto &point : curves.steps())
      text += fmt::format("{}:{} ", point["step"].get<int64_t>(), point["loss"].get<int64_t>());
    return text;
  }
  std::string validation() const { return curves.validation().dump(); }

  test::TempDir folder;
  RunCurves curves;
};

TEST_F(Curves, goOnWithTheLog) {
  ASSERT_TRUE(isOk(read(stepsOf(0, 4, 7, 2), 4)));
  curves.addStep(4, stepLine(4, 8));
  EXPECT_EQ(points(), "0:7 1:7 2:7 3:7 4:8 ");
  EXPECT_EQ(validation(), "[[1,7.0],[3,7.0]]");
}

TEST_F(Curves, haveNoStepTwiceWhereARunWentBack) {
  ASSERT_TRUE(isOk(read(stepsOf(0, 6, 7, 2) + stepsOf(3, 5, 8, 2), 5)));
  EXPECT_EQ(points(), "0:7 1:7 2:7 3:8 4:8 ");
  EXPECT_EQ(validation(), "[[1,7.0],[3,8.0]]");
}

TEST_F(Curves, haveNoStepOfAnotherTraining) {
  ASSERT_TRUE(isOk(read(stepsOf(0, 6, 7, 2) + stepsOf(0, 2, 8), 2)));
  EXPECT_EQ(points(), "0:8 1:8 ");
  EXPECT_EQ(validation(), "[]");
}

TEST_F(Curves, haveAnEvaluationThatIsMadeUpOnce) {
  ASSERT_TRUE(isOk(read(stepsOf(0, 2, 7, 2), 2)));
  curves.addValidation(1, 9);
  EXPECT_EQ(points(), "0:7 1:7 ");
  EXPECT_EQ(validation(), "[[1,9.0]]");
}

TEST_F(Curves, beginAnewWhereTheLogEndsEarlier) {
  EXPECT_TRUE(
      fails(read(stepsOf(0, 3, 7, 2), 9),
            {"log.jsonl: ends with step 2, and this run begins with step 9, so the curves begin with this run"}));
  EXPECT_EQ(points() + validation(), "[]");
  EXPECT_TRUE(fails(read("noise\n" + validationLine(8, 1), 9), {"has no step, and this run begins with step 9"}));
  EXPECT_EQ(validation(), "[]");
}

TEST_F(Curves, needNoLog) {
  EXPECT_TRUE(isOk(read("", 9)));
  EXPECT_TRUE(isOk(curves.readLog(folder.path("absent"), 9)));
  EXPECT_TRUE(isOk(curves.readLog("/dev/null", 9)));
  EXPECT_TRUE(isOk(read(stepsOf(0, 3, 7), 0))); // a training that begins: the lines are another's
  EXPECT_EQ(points(), "");
}

TEST_F(Curves, leaveOutLinesThatAreNone) {
  const std::string noise = "{\"step\":1,\"loss\":\n{\"step\":-4,\"loss\":1}\nnoise\n\n{\"step\":1,\"loss\":[}\n";
  ASSERT_TRUE(isOk(read(stepsOf(0, 1, 7) + noise + stepsOf(2, 4, 7) + "{\"step\":3,\"validation_loss\":\"x\"}", 4)));
  EXPECT_EQ(points(), "0:7 2:7 3:7 ");
  EXPECT_EQ(validation(), "[[3,null]]");
}

TEST_F(Curves, ofLongTrainingsAreThinned) {
  constexpr int64_t kSteps = 100'000, kResumed = 70'001;
  ASSERT_TRUE(isOk(read(stepsOf(0, kResumed, 7, 10), kResumed)));
  RunCurves whole;
  for (int64_t step = 0; step < kSteps; ++step) {
    whole.addStep(step, stepLine(step, 7));
    if (step >= kResumed)
      curves.addStep(step, stepLine(step, 7));
    if ((step + 1) % 10 != 0)
      continue;
    whole.addValidation(step, 7);
    if (step >= kResumed)
      curves.addValidation(step, 7);
  }
  EXPECT_EQ(curves.steps(), whole.steps()) << "the same points as of one run";
  EXPECT_EQ(curves.validation(), whole.validation());
  EXPECT_EQ(curves.stride(), 32);
  const nlohmann::json steps = curves.steps(), validation = curves.validation();
  ASSERT_EQ(steps.size(), size_t(kSteps / 32 + 1));
  for (int64_t i = 0; i < kSteps / 32; ++i)
    ASSERT_EQ(steps[i]["step"], 32 * i);
  EXPECT_EQ(steps.back()["step"], kSteps - 1);
  EXPECT_EQ(validation.size(), size_t(3334)); // each third of 10,000
  EXPECT_EQ(validation[1][0], 39);
  whole.addValidation(kSteps, 7);
  EXPECT_EQ(whole.validation().back()[0], kSteps) << "the last is no third one";
}

} // namespace
} // namespace mgc::tools
