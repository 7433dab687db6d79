// See StepLogs.h.
#include "runtime/train/StepLogs.h"

#include "runtime/base/File.h"

#include <unistd.h>

namespace mgc {

std::vector<EventScalar> scalarsOf(const TrainingStep &step, const plan::Plan &plan, bool hasTimers) {
  const StepResult &result = step.result;
  std::vector<EventScalar> scalars = {{"lm loss", result.terms.empty() ? result.loss : result.crossEntropy}};
  for (const LossTerm &term : result.terms)
    scalars.push_back({std::string(term.name), term.value});
  const auto tokens = static_cast<double>(plan.globalBatchSize * plan.sequenceLength);
  scalars.insert(scalars.end(), {{"grad-norm", result.gradientNorm},
                                 {"learning-rate", step.lr},
                                 {"batch-size", static_cast<double>(plan.globalBatchSize)},
                                 {"iteration-time", step.seconds},
                                 {"tokens/s", tokens / step.seconds}});
  for (const LayerNorm &norm : step.norms)
    scalars.push_back({"grad-norm/" + norm.layer, norm.norm});
  if (step.throughput) {
    scalars.push_back({"throughput", step.throughput->flops * 1e-12});
    scalars.push_back({"tokens/s/device", step.throughput->tokens});
    if (step.throughput->utilisation > 0)
      scalars.push_back({"mfu", step.throughput->utilisation});
  }
  for (const StepTimer &timer : step.timers)
    if (hasTimers)
      scalars.push_back({timer.name + "-time", timer.most()});
  for (const ExpertLoad &load : step.loads)
    scalars.push_back({load.router + " most tokens over mean", load.most / load.mean});
  return scalars;
}

// The folder, or the nearest one above it that is there.
static Status verifyFolder(const std::string &folder) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(folder, ignored);
  while (!isThere(path) && path.has_relative_path())
    path = path.parent_path();
  if (std::filesystem::is_directory(path, ignored) && ::access(path.c_str(), W_OK | X_OK) == 0)
    return Status::ok();
  return errorf("--tensorboard-dir {}: {} is no folder that can be written", folder, path.string());
}

Status StepLogs::verify(const TrainingOptions &options) {
  if (options.log)
    MGC_TRY(LossLog::verify(*options.log));
  return options.tensorboard ? verifyFolder(*options.tensorboard) : Status::ok();
}

Status StepLogs::open(const TrainingOptions &options, const std::optional<LogContinuation> &continued) {
  if (options.log)
    MGC_TRY(lines_.open(*options.log, continued));
  if (!options.tensorboard)
    return Status::ok();
  eventInterval_ = options.tensorboardInterval;
  eventsHaveTimers_ = options.timersInTensorboard;
  MGC_SET(events_, EventFile::create(*options.tensorboard, continued ? std::optional(continued->step) : std::nullopt));
  return Status::ok();
}

void StepLogs::Missing::add(const Status &written, std::vector<std::string> &notes) {
  if (written.isOk())
    return;
  if (steps++ == 0)
    notes.push_back(fmt::format("{}; the training goes on", written.message()));
  last = written;
}

Status StepLogs::Missing::status() const {
  return steps == 0 ? Status::ok() : errorf("{} of the steps are not in it: {}", steps, last.message());
}

std::vector<std::string> StepLogs::write(const TrainingStep &step, const plan::Plan &plan) {
  std::vector<std::string> notes;
  inLines_.add(lines_.write(lineOf(step)), notes);
  if (events_ && step.step % eventInterval_ == 0 && step.result.tokens > 0)
    inEvents_.add(events_->write(step.step, scalarsOf(step, plan, eventsHaveTimers_)), notes);
  return notes;
}

std::vector<EventScalar> scalarsOf(const EvaluationResult &evaluation) {
  return {{fmt::format("lm loss {}", evaluation.what), evaluation.loss},
          {fmt::format("lm loss {} ppl", evaluation.what), evaluation.perplexity()}};
}

std::vector<std::string> StepLogs::write(const EvaluationResult &evaluation) {
  std::vector<std::string> notes;
  inLines_.add(lines_.write(lineOf(evaluation)), notes);
  if (events_)
    inEvents_.add(events_->write(evaluation.step, scalarsOf(evaluation)), notes);
  return notes;
}

Status StepLogs::finish() {
  const Status kept = lines_.finish();
  Status lines = inLines_.status();
  if (lines.isOk())
    lines = kept;
  const Status events = inEvents_.status();
  if (lines.isOk() || events.isOk())
    return lines.isOk() ? events : lines;
  return errorf("{}\n{}", lines.message(), events.message());
}

} // namespace mgc
