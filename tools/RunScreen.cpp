// See RunScreen.h. Progress goes to standard error, so that standard output has the summary only.
#include "tools/RunScreen.h"

#include "tools/process/Process.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

namespace mgc {

using tools::say;

static double inMib(int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

static std::string describeThroughput(const Throughput &throughput) {
  return fmt::format("  of each device {:.0f} tokens/s, {:.3g} TFLOP/s{}", throughput.tokens, throughput.flops * 1e-12,
                     throughput.utilisation > 0 ? fmt::format(", MFU {:.1f} %", 100 * throughput.utilisation) : "");
}

static std::string describeStep(const TrainingStep &step, int64_t tokensPerStep) {
  if (step.result.tokens == 0)
    return "no label";
  return fmt::format("loss {:.4f}  grad norm {:.3f}  lr {:.3g}  {:.0f} tokens/s{}", step.result.loss,
                     step.result.gradientNorm, step.lr, static_cast<double>(tokensPerStep) / step.seconds,
                     step.throughput ? describeThroughput(*step.throughput) : "");
}

RunScreen::RunScreen(int64_t logInterval, std::string timersOf)
    : logInterval_(logInterval), timersOf_(std::move(timersOf)), isTerminal_(isatty(STDERR_FILENO) == 1) {}

RunScreen::~RunScreen() {
  if (barShown_)
    std::fputc('\n', stderr);
}

void RunScreen::began(const TrainingOptions &options, const Engine &engine, const std::string &data) {
  const plan::Plan &plan = engine.plan();
  trainIters_ = options.trainIters;
  tokensPerStep_ = plan.globalBatchSize * plan.sequenceLength;
  std::string axes;
  for (const plan::Axis &axis : plan.mesh.axes)
    axes += fmt::format(" {}={}", axis.name, axis.size);
  int64_t largest = 0;
  for (const plan::StagePlan &stage : plan.stages)
    largest = std::max(largest, stage.bytes);
  say(stderr,
      "{}: {}, {} rank{} ({}),{}, {:.1f} MiB in the largest\n"
      "data: {}\n"
      "{} of {} samples of {} tokens\n",
      options.plan, plan.modelType, plan.mesh.worldSize(), plan.mesh.worldSize() == 1 ? "" : "s",
      engine.whereRanksAre(), axes.empty() ? " one device" : axes, inMib(largest), data,
      options.rampup ? "steps" : fmt::format("{} steps", trainIters_), plan.globalBatchSize, plan.sequenceLength);
  if (options.save && plan.modelConfig.empty())
    say(stderr, "mgrun: --save {}: gets no config.json: the plan is of an edited program, which none fits\n",
        *options.save);
  for (const std::string &note : engine.notes())
    say(stderr, "mgrun: {}\n", note);
}

// As Megatron-LM prints them.
void RunScreen::showTimers(const TrainingStep &step) {
  if (step.timers.empty())
    return;
  const bool isMinMax = timersOf_ == "minmax", isAll = timersOf_ == "all";
  std::string text = fmt::format("{} across ranks (ms):\n", isMinMax ? "(min, max) time"
                                                            : isAll  ? "times"
                                                                     : "max time");
  for (const StepTimer &timer : step.timers) {
    const std::string name = fmt::format("    {:.<40}", timer.name + " ");
    if (isAll) {
      text += fmt::format("    {}:\n", timer.name);
      for (size_t rank = 0; rank < timer.seconds.size(); ++rank)
        text += fmt::format("     rank {:2}: {:.2f}\n", rank, 1e3 * timer.seconds[rank]);
    } else if (isMinMax) {
      text += fmt::format("{}: ({:.2f}, {:.2f})\n", name, 1e3 * timer.least(), 1e3 * timer.most());
    } else {
      text += fmt::format("{}: {:.2f}\n", name, 1e3 * timer.most());
    }
  }
  say(stderr, "{}{}", isTerminal_ ? "\n" : "", text);
}

void RunScreen::stepped(const TrainingStep &step) {
  if (isTerminal_) {
    drawBar(step);
    return showTimers(step);
  }
  const bool isShown = std::exchange(isFirst_, false) || step.step + 1 == trainIters_ ||
                       (logInterval_ > 0 && step.step % logInterval_ == 0);
  if (isShown)
    say(stderr, "step {}: {}\n", step.step, describeStep(step, tokensPerStep_));
  showTimers(step);
}

void RunScreen::evaluated(const EvaluationResult &evaluation) {
  say(stderr, "{}step {}: {} loss {:.4f}  perplexity {:.4g}  ({} batches in {:.1f} s)\n", barShown_ ? "\n" : "",
      evaluation.step, evaluation.what, evaluation.loss, evaluation.perplexity(), evaluation.batches,
      evaluation.seconds);
}

void RunScreen::noted(const std::string &note) { say(stderr, "{}mgrun: {}\n", barShown_ ? "\n" : "", note); }

void RunScreen::drawBar(const TrainingStep &step) {
  constexpr int64_t kWidth = 24;
  const int64_t done = step.step + 1, filled = kWidth * done / trainIters_;
  say(stderr, "\r\x1b[2K[{:=<{}}{: <{}}] {}/{}  {}", "", filled, "", kWidth - filled, done, trainIters_,
      describeStep(step, tokensPerStep_));
  std::fflush(stderr);
  barShown_ = true;
}

std::string describeSummary(const TrainingOptions &options, const TrainingSummary &summary) {
  std::string text = fmt::format("{} step{}{}", summary.steps, summary.steps == 1 ? "" : "s",
                                 summary.interrupted  ? " (interrupted)"
                                 : summary.endedEarly ? fmt::format(" of {}", summary.trainIters)
                                                      : "");
  if (summary.skipped > 0)
    text += fmt::format(", {} of them skipped", summary.skipped);
  if (summary.steps > summary.skipped)
    text += fmt::format(": loss {:.4f} -> {:.4f}, {:.0f} tokens/s", summary.firstLoss, summary.lastLoss,
                        summary.tokens / summary.seconds);
  text += "\n";
  if (const std::optional<DeviceMemory> &memory = summary.deviceMemory)
    text += fmt::format("{:<10}{:.1f} MiB of the plan, {:.1f} MiB came beside it (libraries, code, graphs), {:.1f} MiB "
                        "were in use before\n",
                        "memory", inMib(memory->ofPlan), inMib(memory->others), inMib(memory->before));
  const auto addPath = [&](const char *what, const std::optional<std::string> &path) {
    if (path)
      text += fmt::format("{:<10}{}\n", what, *path);
  };
  addPath("log", options.log);
  addPath("events", options.tensorboard);
  if (summary.steps > 0 || !summary.interrupted)
    addPath("weights", options.save);
  if (summary.steps > 0)
    addPath("gradients", options.saveGradients);
  addPath("trace", summary.isTraced ? options.trace : std::nullopt);
  addPath("profile", summary.isProfileWritten ? options.profileJson : std::nullopt);
  addPath("page", summary.isPageWritten ? std::optional(options.page->path) : std::nullopt);
  if (!summary.profile && (options.profile || options.profileJson))
    text += "no profile: interrupted before the second step\n";
  return text;
}

} // namespace mgc
