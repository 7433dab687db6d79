// See StepLogs.h.
#include "runtime/train/StepLogs.h"

namespace mgc {

std::vector<EventScalar> scalarsOf(const TrainingStep &step, const plan::Plan &plan) {
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
  for (const ExpertLoad &load : step.loads)
    scalars.push_back({load.router + " most tokens over mean", load.most / load.mean});
  return scalars;
}

Status StepLogs::open(const TrainingOptions &options, std::optional<int64_t> continued) {
  if (options.log)
    MGC_TRY(lines_.open(*options.log, continued));
  if (!options.tensorboard)
    return Status::ok();
  eventInterval_ = options.tensorboardInterval;
  MGC_ASSIGN(events, EventFile::create(*options.tensorboard));
  events_ = std::move(events);
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
  inLines_.add(lines_.write(step), notes);
  if (events_ && step.step % eventInterval_ == 0)
    inEvents_.add(events_->write(step.step, scalarsOf(step, plan)), notes);
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
