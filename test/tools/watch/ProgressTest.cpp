// The lines of progress: what they say of the time, and that long silences are broken.
#include "runtime/base/NumberText.h"
#include "test/runtime/train/TrainingRun.h"
#include "tools/watch/RunScreen.h"

#include <gtest/gtest.h>
#include <regex>

namespace mgc::tools {
namespace {

using namespace std::chrono_literals;
using test::has;
using test::isOk;

TrainingStep stepOf(int64_t number, int64_t samples, double seconds) {
  TrainingStep step;
  step.step = number, step.samples = samples, step.seconds = seconds;
  return step;
}

TEST(RunProgress, saysHowFarATrainingIs) {
  RunProgress progress;
  progress.begin(100, 10 * 8, 512);
  EXPECT_EQ(progress.text(101), "elapsed 0:00:01  0 tokens");
  progress.stepped(stepOf(0, 8, 60)); // warms up
  EXPECT_EQ(progress.text(160), "elapsed 0:01:00  4.10 k tokens");
  progress.stepped(stepOf(1, 16, 2));
  EXPECT_EQ(progress.text(162), "elapsed 0:01:02  left 0:00:16  8.19 k tokens");
  progress.stepped(stepOf(2, 24, 50));
  progress.stepped(stepOf(3, 32, 3));
  EXPECT_EQ(progress.text(220), "elapsed 0:02:00  left 0:00:18  16.38 k tokens") << "six steps of the median";
  progress.begin(220, 1, 1); // another part
  for (int64_t step = 4; step < 10; ++step)
    progress.stepped(stepOf(step, 8 * (step + 1), 4));
  EXPECT_EQ(progress.text(260), "elapsed 0:02:40  left 0:00:00  40.96 k tokens");
}

TEST(RunProgress, ofARunThatGoesOnCountsAllTokens) {
  RunProgress progress;
  progress.begin(0, 1000, 100);
  progress.stepped(stepOf(50, 510, 1));
  EXPECT_EQ(progress.text(1), "elapsed 0:00:01  51.00 k tokens");
  progress.stepped(stepOf(51, 520, 10));
  EXPECT_EQ(progress.text(11), "elapsed 0:00:11  left 0:08:00  52.00 k tokens");
}

TEST(RunProgress, forgetsStepsOfLongAgo) {
  RunProgress progress;
  progress.begin(0, 200, 1);
  for (int64_t step = 0; step < 100; ++step)
    progress.stepped(stepOf(step, step + 1, step < 60 ? 100 : 1));
  EXPECT_TRUE(has(progress.text(0), {"left 0:01:40"}));
}

TEST(RunProgress, writesDurations) {
  EXPECT_EQ(durationText(-1), "0:00:00");
  EXPECT_EQ(durationText(59.7), "0:01:00");
  EXPECT_EQ(durationText(36'000), "10:00:00");
  EXPECT_EQ(durationText(3 * 86'400 + 3'661), "3 d 01:01:01");
  EXPECT_EQ(durationText(std::numeric_limits<double>::infinity()), durationText(1e10));
}

TEST(Heartbeat, beatsUntilItEnds) {
  std::mutex mutex;
  std::condition_variable hasBeaten;
  int beats = 0;
  {
    Heartbeat heartbeat(1ms);
    heartbeat.start([&] {
      std::lock_guard lock(mutex);
      ++beats;
      hasBeaten.notify_all();
    });
    std::unique_lock lock(mutex);
    hasBeaten.wait(lock, [&] { return beats >= 3; });
  }
  const int atTheEnd = beats;
  EXPECT_GE(atTheEnd, 3);
}

TEST(Heartbeat, isQuietWhileSomethingIsTold) {
  Heartbeat heartbeat(1ms);
  bool isTold = false, isDisturbed = false;
  heartbeat.start([&] { isDisturbed |= isTold; });
  for (int i = 0; i < 100; ++i) {
    const auto lock = heartbeat.quiet();
    isTold = true;
    std::this_thread::yield();
    isTold = false;
  }
  const auto lock = heartbeat.quiet();
  EXPECT_FALSE(isDisturbed);
}

// A screen of a file, which after some activities waits until the file says something.
class Watched final : public TrainingObserver {
public:
  Watched(const test::Bundle &bundle, int64_t logInterval, std::chrono::milliseconds longestSilence)
      : bundle_(bundle), file_(std::fopen(bundle.path("screen").c_str(), "w")),
        screen_(std::in_place, logInterval, "max", file_, longestSilence) {}
  ~Watched() override { close(); }
  void began(const TrainingOptions &options, const Engine &engine, const std::string &data) override {
    screen_->began(options, engine, data);
  }
  void started(const std::string &activity) override {
    screen_->started(activity);
    while (awaited.contains(activity) && text().find(awaited.at(activity)) == std::string::npos)
      std::this_thread::sleep_for(1ms);
  }
  void stepped(const TrainingStep &step) override { screen_->stepped(step); }
  std::string text() const { return bundle_.read("screen"); }
  std::string close() {
    if (screen_)
      std::fclose((screen_.reset(), file_));
    return text();
  }

  std::map<std::string, std::string> awaited; // by activity

private:
  const test::Bundle &bundle_;
  std::FILE *file_;
  std::optional<RunScreen> screen_;
};

using Screen = test::Training;

TEST_F(Screen, saysWhichStepIsInProgress) {
  Watched watched(bundle, 1000, 1ms);
  watched.awaited = {{"step 0", "in progress: step 0, since "}, {"step 2", "step 1: loss "}};
  ASSERT_TRUE(isOk(train(options, watched, interrupt)));
  const std::string text = watched.close();
  EXPECT_TRUE(std::regex_search(text, std::regex(R"(\nin progress: step 0, since \d\d:\d\d:\d\d \(0:\d\d:\d\d\)\n)")))
      << text;
  EXPECT_TRUE(std::regex_search(
      text, std::regex(R"(\nstep 1: loss [\d.]+  grad norm [\d.]+  lr 0\.01  \d+ tokens/s  elapsed \d:\d\d:\d\d  left )"
                       R"(\d:\d\d:\d\d  [\d.]+( k)? tokens\n)")))
      << text;
}

TEST_F(Screen, saysNothingMoreWhereStepsAreShort) {
  Watched watched(bundle, 1000, 24h);
  ASSERT_TRUE(isOk(train(options, watched, interrupt)));
  const std::string text = watched.close();
  EXPECT_TRUE(has(text, {"step 0: loss ", "step 3: loss "}));
  EXPECT_EQ(text.find("in progress"), text.npos) << text;
  EXPECT_EQ(text.find("step 1: "), text.npos) << text;
  std::smatch sizes;
  ASSERT_TRUE(std::regex_search(text, sizes, std::regex(R"(\n4 steps of (\d+) samples of (\d+) tokens\n)"))) << text;
  const std::string tokens = countText(4.0 * std::stod(sizes[1]) * std::stod(sizes[2]));
  EXPECT_TRUE(std::regex_search(text, std::regex(fmt::format(R"(\nstep 3: .*  {} tokens\n)", tokens)))) << text;
}

TEST_F(Screen, saysThatSavingIsInProgress) {
  options.save = bundle.path("out");
  Watched watched(bundle, 1000, 1ms);
  watched.awaited = {{"saving after 4 steps", "in progress: saving after 4 steps, since "}};
  EXPECT_TRUE(isOk(train(options, watched, interrupt)));
}

} // namespace
} // namespace mgc::tools
