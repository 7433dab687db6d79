// StepLogs: the numbers of each step in the files that a run was asked for: lines of JSON (LossLog.h), events of TensorBoard
// (EventFile.h). A log is not worth a training: what a file lacks is said at once and at the end.
#pragma once

#include "runtime/io/EventFile.h"
#include "runtime/train/LossLog.h"

namespace mgc {

class StepLogs {
public:
  // `continued`: see LossLog::open; the event file tells it to TensorBoard, which drops the steps that are repeated.
  Status open(const TrainingOptions &options, const std::optional<LogContinuation> &continued);
  // Refuses as open() does, and writes nothing.
  static Status verify(const TrainingOptions &options);
  // A note for people where a step is not in a file, of each file the first time.
  std::vector<std::string> write(const TrainingStep &step, const plan::Plan &plan);
  std::vector<std::string> write(const EvaluationResult &evaluation);
  Status finish(); // after the last step: which files lack steps, or were deleted

private:
  // The steps that one of the files lacks.
  struct Missing {
    int64_t steps = 0;
    Status last;
    void add(const Status &written, std::vector<std::string> &notes);
    Status status() const;
  };
  LossLog lines_;
  std::optional<EventFile> events_;
  int64_t eventInterval_ = 1;
  bool eventsHaveTimers_ = false;
  Missing inLines_, inEvents_;
};

// Numbers of a step by the tags of Megatron-LM ("lm loss", "grad-norm", "learning-rate", "batch-size", "iteration-time":
// seconds, "throughput": TFLOP/s of a device; of timers "forward-compute-time": seconds of the slowest rank), and "tokens/s".
std::vector<EventScalar> scalarsOf(const TrainingStep &step, const plan::Plan &plan, bool hasTimers = false);
// "lm loss validation" and "lm loss validation ppl", Megatron-LM's; of the split test so too.
std::vector<EventScalar> scalarsOf(const EvaluationResult &evaluation);

} // namespace mgc
