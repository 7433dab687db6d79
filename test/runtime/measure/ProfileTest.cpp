// The trace and the profile of a run: that every instruction is there, and that the times add up.
#include "plan/Expand.h"
#include "test/runtime/train/TrainingRun.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace mgc::test {
namespace {

using nlohmann::json;

struct TracedRun {
  Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  Recorder recorder;
  Interrupt interrupt;
  TracedRun() {
    options.trainIters = 6;
    options.trace = bundle.path("trace.json");
  }
  Result<TrainingSummary> train() { return mgc::train(options, recorder, interrupt); }
  json trace() const { return json::parse(bundle.read("trace.json")); }
};

// The events of one kind ("X": spans) of each rank, in the order of the file.
std::map<int64_t, std::vector<json>> eventsOf(const json &trace, const std::string &phase) {
  std::map<int64_t, std::vector<json>> events;
  for (const json &event : trace["traceEvents"])
    if (event["ph"] == phase)
      events[event["tid"]].push_back(event);
  return events;
}

bool isInstruction(const json &span) { return span["args"].contains("kernel"); }

// The instructions that rank `rank` runs in one step: chunk, microbatch and label of each, in order.
using ExecutionPlace = std::tuple<std::string, int64_t, std::string>;
std::vector<ExecutionPlace> instructionsOf(const plan::Plan &plan, int64_t rank) {
  std::vector<ExecutionPlace> places;
  const plan::StagePlan &stage = plan.stages[rank / 2]; // dp = 2
  for (const plan::ExpandedStep &step : plan::expandedSchedule(stage))
    if (step.kind == plan::ExpandedStep::Kind::run)
      for (const plan::Call &call : stage.chunks[step.chunk].calls)
        for (const plan::Instruction &instruction : plan.programs[call.program].instructions)
          places.emplace_back(stage.chunks[step.chunk].name(), step.microbatch, instruction.label);
  return places;
}

TEST(Trace, holdsEachInstructionOfEachRankOncePerStepInOrder) {
  TracedRun run;
  run.options.traceSteps = 3;
  ASSERT_TRUE(isOk(run.train()));
  const auto spans = eventsOf(run.trace(), "X");
  ASSERT_EQ(spans.size(), 4u);
  for (const auto &[rank, events] : spans) {
    std::map<int64_t, std::vector<ExecutionPlace>> found;
    for (const json &span : events)
      if (isInstruction(span))
        found[span["args"]["step"]].emplace_back(span["args"]["chunk"], span["args"].value("microbatch", -1),
                                                 span["name"]);
    const std::vector<ExecutionPlace> expected = instructionsOf(run.bundle.pipeline().plan, rank);
    EXPECT_EQ(found, (std::map<int64_t, std::vector<ExecutionPlace>>{{1, expected}, {2, expected}, {3, expected}}));
  }
}

TEST(Trace, spansNestAndDoNotOverlap) {
  TracedRun run;
  ASSERT_TRUE(isOk(run.train()));
  constexpr double kRounding = 2e-3; // us: times are written to the nanosecond
  for (const auto &[rank, events] : eventsOf(run.trace(), "X")) {
    std::vector<double> ends;
    double last = -1;
    for (const json &span : events) {
      const double begin = span["ts"], end = begin + span["dur"].get<double>();
      EXPECT_GE(begin, last) << "spans are in the order of their begin";
      last = begin;
      while (!ends.empty() && ends.back() <= begin + kRounding)
        ends.pop_back();
      if (!ends.empty())
        EXPECT_LE(end, ends.back() + kRounding) << span.dump();
      EXPECT_EQ(ends.empty(), span["cat"] == "step") << span.dump();
      ends.push_back(end);
    }
  }
}

// Rank 2 computes on what rank 0 sends; collectives and receives have to wait in some step.
TEST(Trace, showsTransfersAndWaiting) {
  TracedRun run;
  run.options.delays = 3;
  ASSERT_TRUE(isOk(run.train()));
  const json trace = run.trace();
  std::map<std::string, double> begins, ends;
  for (const json &event : trace["traceEvents"])
    if (event["ph"] == "s")
      EXPECT_TRUE(begins.emplace(event["id"], event["ts"]).second) << event.dump();
    else if (event["ph"] == "f")
      EXPECT_TRUE(ends.emplace(event["id"], event["ts"]).second) << event.dump();
  const int64_t microbatches = run.bundle.pipeline().plan.microbatches;
  EXPECT_EQ(begins.size(), 3u * 2 * 2 * microbatches) << "3 steps, 2 directions, 2 data ranks";
  ASSERT_EQ(ends.size(), begins.size());
  for (const auto &[id, begin] : begins)
    EXPECT_LE(begin, ends.at(id)) << id;
  int64_t waits = 0;
  for (const auto &[rank, events] : eventsOf(trace, "X"))
    for (const json &span : events)
      waits += span["cat"] == "wait";
  EXPECT_GT(waits, 0);
}

TEST(Trace, namesTheRanks) {
  TracedRun run;
  ASSERT_TRUE(isOk(run.train()));
  std::map<int64_t, std::string> names;
  const json trace = run.trace();
  for (const json &event : trace["traceEvents"])
    if (event["name"] == "thread_name")
      names[event["tid"]] = event["args"]["name"];
  EXPECT_EQ(
      names,
      (std::map<int64_t, std::string>{
          {0, "rank 0: pp 0 dp 0"}, {1, "rank 1: pp 0 dp 1"}, {2, "rank 2: pp 1 dp 0"}, {3, "rank 3: pp 1 dp 1"}}));
}

// Far more steps than any memory holds the spans of.
constexpr int64_t kTooManySteps = 1'000'000'000'000;

TEST(Trace, takesMemoryForTheStepsThereAreOnly) {
  TracedRun run;
  run.options.traceSteps = kTooManySteps;
  ASSERT_TRUE(isOk(run.train()));
  EXPECT_EQ(eventsOf(run.trace(), "X").at(0).back()["args"]["step"], run.options.trainIters - 1);
}

TEST(Trace, isRefusedWithoutMemoryForIt) {
  if (MGC_TEST_SANITIZED)
    GTEST_SKIP() << "a sanitizer ends the process where operator new would throw";
  TracedRun run;
  run.options.traceSteps = kTooManySteps;
  run.options.trainIters = kTooManySteps + 1;
  EXPECT_TRUE(fails(run.train(), {"rank 0", "no memory for a trace of 1000000000000 steps", " bytes",
                                  "a smaller --trace-steps would fit"}));
  EXPECT_TRUE(run.recorder.steps.empty());
}

TEST(Trace, ofARunOfOneStepHasThatOne) {
  TracedRun run;
  run.options.trainIters = 1;
  ASSERT_TRUE(isOk(run.train()));
  EXPECT_EQ(eventsOf(run.trace(), "X").at(0).back()["args"]["step"], 0);
}

TEST(Trace, ofARunWithoutStepsIsRefused) {
  TracedRun run;
  run.options.trainIters = 0;
  EXPECT_TRUE(fails(run.train(), {"--train-iters = 0", "no step to trace, expected at least 1"}));
}

TEST(Trace, isWrittenAfterAnError) {
  TracedRun run;
  run.options.optimizer.lrList = {0.01, 0.01, 1e38, 0.01, 0.01, 0.01};
  EXPECT_TRUE(fails(run.train(), {"not finite"}));
  const auto spans = eventsOf(run.trace(), "X");
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans.at(0).back()["args"]["step"], std::ssize(run.recorder.steps) - 1) << "the step that failed";
}

TEST(Trace, ofAnAbortedStepIsWhole) {
  TracedRun run;
  run.recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1)
      run.interrupt.abort();
  };
  EXPECT_TRUE(fails(run.train(), {"interrupted in the middle"}));
  EXPECT_EQ(eventsOf(run.trace(), "X").size(), 4u);
}

// One run, for measuring the machine takes its time.
struct ProfiledRun : TracedRun {
  TrainingSummary summary;
  ProfiledRun() {
    options.profile = true;
    options.profileJson = bundle.path("profile.json");
    Result<TrainingSummary> trained = train();
    EXPECT_TRUE(isOk(trained));
    if (trained.isOk())
      summary = trained.take();
  }
  const Profile &profile() const { return summary.profile.value(); }
};

const ProfiledRun &profiled() {
  static const ProfiledRun run;
  return run;
}

TEST(Profile, partsAndRowsAddUpToTheStep) {
  const Profile &profile = profiled().profile();
  EXPECT_EQ(profile.steps, 5) << "all but the first";
  EXPECT_EQ(profile.ranks, 4);
  const double rounding = 1e-9 * profile.step;
  double parts = 0, moving = 0, rows = 0, bound = 0;
  for (const ProfilePart &part : profile.parts) {
    parts += part.seconds;
    EXPECT_GE(part.seconds, 0) << part.name;
    if (part.name != "waiting" && part.name != "between instructions" && part.name != "idle")
      moving += part.seconds;
  }
  EXPECT_NEAR(parts, profile.step, rounding);
  for (const ProfileRow &row : profile.rows)
    rows += row.seconds, bound += row.bound;
  EXPECT_NEAR(rows, moving, rounding);
  EXPECT_NEAR(bound, profile.bound, 1e-9 * bound);
  EXPECT_LE(profile.step, profiled().summary.seconds / 5);
}

TEST(Profile, countsCallsAndWork) {
  const Profile &profile = profiled().profile();
  const plan::Plan &plan = profiled().bundle.pipeline().plan;
  double instructions = 0, calls = 0;
  for (int64_t rank = 0; rank < 4; ++rank)
    instructions += double(instructionsOf(plan, rank).size()) / 4;
  for (const ProfileRow &row : profile.rows) {
    if (row.kind != plan::WorkKind::transfer) {
      calls += row.calls;
      continue;
    }
    // Each rank has one end of an activation and of a gradient per microbatch; half of the ends send.
    EXPECT_DOUBLE_EQ(row.calls, 2.0 * double(plan.microbatches));
    const double bytes = double(plan.sequenceLength * plan.microBatchSize) * 4;
    EXPECT_DOUBLE_EQ(row.bytes, double(plan.microbatches) * 2 * bytes);
  }
  EXPECT_NEAR(calls, instructions, 1e-9);
  EXPECT_GT(profile.rates.flops, 0);
  EXPECT_GT(profile.rates.bytes, 0);
}

TEST(Profile, jsonSaysTheSame) {
  const Profile &profile = profiled().profile();
  const json found = json::parse(profiled().bundle.read("profile.json"));
  EXPECT_EQ(found["bound_seconds"], profile.bound);
  EXPECT_EQ(found["step_seconds"], profile.median);
  EXPECT_EQ(found["rows"].size(), profile.rows.size());
  EXPECT_EQ(found["rows"][0]["kernel"], profile.rows[0].kernel);
  EXPECT_EQ(found["parts"].size(), profile.parts.size());
}

TEST(Profile, changesNoBit) {
  TracedRun plain;
  plain.options.trace.reset();
  const Result<TrainingSummary> summary = plain.train();
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->lastLoss, profiled().summary.lastLoss);
}

TEST(Profile, whatCannotBeIsRefusedBeforeTraining) {
  TracedRun run;
  run.options.trace = run.bundle.path("absent/trace.json");
  EXPECT_TRUE(fails(run.train(), {"--trace", "absent/trace.json"}));
  run.options.trace.reset();
  run.options.profileJson = "/dev/full";
  EXPECT_TRUE(fails(run.train(), {"--profile-json", "/dev/full"}));
  run.options.profileJson = run.options.log = run.bundle.path("same");
  EXPECT_TRUE(fails(run.train(), {"--profile-json", "is a file of --log"}));
  run.options.profileJson = run.bundle.path("profile.json");
  run.options.log.reset();
  run.options.trainIters = 1;
  EXPECT_TRUE(fails(run.train(), {"--train-iters = 1", "expected at least 2"}));
  EXPECT_TRUE(run.recorder.steps.empty());
}

} // namespace
} // namespace mgc::test
