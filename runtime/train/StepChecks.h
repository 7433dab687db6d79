// StepChecks: whether the numbers of a step are those of a healthy training.
//   in:  the loss and the gradient norm of each step, known before its update
//   out: what is wrong with them; whether such a step is skipped or ends the run
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/exec/Engine.h"

#include <string>

namespace mgc {

struct CheckOptions {
  bool finite = true;          // --check-for-nan-in-loss-and-grad
  bool spikyLoss = false;      // --check-for-spiky-loss
  bool largeGradients = false; // --check-for-large-grads
  int64_t skips = 0;           // bad steps in a row whose update is left out; the next one ends the run
};

// Megatron-LM's measure of what is too large: 10 times the largest of the first 100 values, and more.
class LargeValues {
public:
  static constexpr int64_t kSamples = 100;
  static constexpr double kFactor = 10;
  // Whether the value is too large. Values that are not finite are neither: they are not remembered.
  bool isTooLarge(double value);
  double largest() const { return history_.largest; }
  const ValueHistory &history() const { return history_; }
  void goOnFrom(const ValueHistory &history) { history_ = history; }

private:
  ValueHistory history_;
};

class StepChecks {
public:
  explicit StepChecks(const CheckOptions &options = {}) : options_(options) {}

  // Whether a bad step can still be without its update, so that judge() must be called before it.
  bool skips() const { return options_.skips > 0; }
  // Judges each step once. Whether it is good.
  bool judge(const StepResult &result);
  // The problem of the last step: "loss nan, gradient norm 3: not finite"; empty: none.
  const std::string &finding() const { return finding_; }
  bool isFinite() const { return isFinite_; }
  // As many bad steps came one after the other as may be skipped, and one more.
  bool isOver() const { return inARow_ > options_.skips; }

  // The first steps of a training, not of a run, say what is too large: a checkpoint keeps their values.
  void keepIn(CheckpointRecord &record) const;
  void goOnFrom(const CheckpointRecord &record);

private:
  CheckOptions options_;
  LargeValues losses_, norms_;
  std::string finding_;
  bool isFinite_ = true;
  int64_t inARow_ = 0;
};

} // namespace mgc
