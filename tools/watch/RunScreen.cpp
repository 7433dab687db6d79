// See RunScreen.h. Progress goes to standard error, so that standard output has the summary only.
#include "tools/watch/RunScreen.h"

#include "tools/process/Process.h"

#include <algorithm>
#include <ctime>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace mgc {

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

static double secondsOn(tools::Heartbeat::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Columns of the terminal; 0: not known.
static size_t columnsOf(std::FILE *screen) {
  winsize size{};
  return ioctl(fileno(screen), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

RunScreen::RunScreen(int64_t logInterval, std::string timersOf, std::FILE *screen,
                     std::chrono::milliseconds longestSilence)
    : logInterval_(logInterval), timersOf_(std::move(timersOf)), screen_(screen),
      isTerminal_(isatty(fileno(screen)) == 1), heartbeat_(longestSilence) {}

RunScreen::~RunScreen() {
  const auto lock = heartbeat_.quiet();
  if (barShown_)
    std::fputc('\n', screen_);
  isOver_ = true;
}

template <typename... Args> void RunScreen::tell(fmt::format_string<Args...> format, Args &&...args) {
  tools::write(screen_, fmt::format(format, std::forward<Args>(args)...));
  std::fflush(screen_);
  heartbeat_.restart();
}

void RunScreen::began(const TrainingOptions &options, const Engine &engine, const std::string &data) {
  const auto lock = heartbeat_.quiet();
  const plan::Plan &plan = engine.plan();
  trainIters_ = options.trainIters;
  tokensPerStep_ = plan.globalBatchSize * plan.sequenceLength;
  progress_.begin(secondsOn(Clock::now()), options.rampup ? *options.trainSamples : trainIters_ * plan.globalBatchSize,
                  plan.sequenceLength);
  std::string axes;
  for (const plan::Axis &axis : plan.mesh.axes)
    axes += fmt::format(" {}={}", axis.name, axis.size);
  int64_t largest = 0;
  for (const plan::StagePlan &stage : plan.stages)
    largest = std::max(largest, stage.bytes);
  tell("{}: {}, {} rank{} ({}),{}, {:.1f} MiB in the largest\n"
       "data: {}\n"
       "{} of {} samples of {} tokens\n",
       options.plan, plan.modelType, plan.mesh.worldSize(), plan.mesh.worldSize() == 1 ? "" : "s",
       engine.whereRanksAre(), axes.empty() ? " one device" : axes, inMib(largest), data,
       options.rampup ? "steps" : fmt::format("{} steps", trainIters_), plan.globalBatchSize, plan.sequenceLength);
  if (options.save && plan.modelConfig.empty())
    tell("mgrun: --save {}: gets no config.json: the plan is of an edited program, which none fits\n", *options.save);
  for (const std::string &note : engine.notes())
    tell("mgrun: {}\n", note);
  heartbeat_.start([this] { beat(); });
}

void RunScreen::started(const std::string &activity) {
  const auto lock = heartbeat_.quiet();
  activity_ = activity;
  activitySince_ = Clock::now();
  activityBegan_ = std::time(nullptr);
}

// "in progress: step 12, since 14:03:10 (0:01:30)"
std::string RunScreen::inProgress() const {
  std::tm local{};
  localtime_r(&activityBegan_, &local);
  return fmt::format("in progress: {}, since {:02}:{:02}:{:02} ({})", activity_, local.tm_hour, local.tm_min,
                     local.tm_sec, tools::durationText(secondsOn(Clock::now()) - secondsOn(activitySince_)));
}

// The step that has no line yet, and the activity that lasts as long as most of the silence or is all that there is to say.
void RunScreen::beat() {
  if (isOver_)
    return;
  if (isTerminal_)
    return drawBar(activity_.empty() ? "" : inProgress() + "  ");
  const bool isNew = !std::exchange(isLastShown_, true);
  if (isNew)
    tell("{}\n", lastStep_);
  const bool isLong = Clock::now() - activitySince_ >= heartbeat_.interval() / 2;
  if (!activity_.empty() && (isLong || !isNew))
    tell("{}\n", inProgress());
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
  tell("{}{}", isTerminal_ ? "\n" : "", text);
}

void RunScreen::stepped(const TrainingStep &step) {
  const auto lock = heartbeat_.quiet();
  progress_.stepped(step);
  activity_.clear();
  done_ = step.step + 1;
  details_ = fmt::format("{}  {}", describeStep(step, tokensPerStep_), progress_.tokens());
  lastStep_ = fmt::format("step {}: {}  {}", step.step, describeStep(step, tokensPerStep_),
                          progress_.text(secondsOn(Clock::now())));
  if (isTerminal_) {
    drawBar("");
    return showTimers(step);
  }
  const bool isShown =
      std::exchange(isFirst_, false) || done_ == trainIters_ || (logInterval_ > 0 && step.step % logInterval_ == 0);
  if (isShown)
    tell("{}\n", lastStep_);
  isLastShown_ = isShown;
  showTimers(step);
}

void RunScreen::evaluated(const EvaluationResult &evaluation) {
  const auto lock = heartbeat_.quiet();
  tell("{}step {}: {} loss {:.4f}  perplexity {:.4g}  ({} batches in {:.1f} s)\n", barShown_ ? "\n" : "",
       evaluation.step, evaluation.what, evaluation.loss, evaluation.perplexity(), evaluation.batches,
       evaluation.seconds);
  activity_.clear();
}

void RunScreen::failed(const Status &error) { noted(error.message()); }

void RunScreen::noted(const std::string &note) {
  const auto lock = heartbeat_.quiet();
  tell("{}mgrun: {}\n", barShown_ ? "\n" : "", note);
}

// One line, cut to the terminal, since text that wraps is not overwritten: the first words are those to keep.
void RunScreen::drawBar(const std::string &more) {
  constexpr size_t kNarrow = 150; // columns
  const size_t columns = columnsOf(screen_);
  const int64_t width = columns > 0 && columns < kNarrow ? 12 : 24;
  const int64_t filled = width * done_ / std::max<int64_t>(trainIters_, 1);
  std::string line = fmt::format("[{:=<{}}{: <{}}] {}/{}  {}  {}{}", "", filled, "", width - filled, done_, trainIters_,
                                 progress_.times(secondsOn(Clock::now())), more, details_);
  if (columns > 0 && line.size() >= columns)
    line.resize(columns - 1);
  tell("\r\x1b[2K{}", line);
  barShown_ = true;
}

static std::string describeStart(const StartReport &start) {
  return fmt::format("nothing is refused; nothing was trained, and no weights or logs written\n{:<10}{}\n{:<10}{}\n",
                     "memory", start.memory, "batch", start.batch);
}

std::string describeSummary(const TrainingOptions &options, const TrainingSummary &summary) {
  if (summary.start)
    return describeStart(*summary.start);
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
