// EvaluationProgress: which evaluations behind the current step are still to be done, and what the validation losses of a training
// decide.
//   in:  the evaluations that are begun and those that are complete
//   out: the evaluations that a request to end has cut off; the least loss so far; whether the training ends early
// A checkpoint keeps it all, so a run that goes on evaluates, keeps and ends as one that did not stop.
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/train/Training.h"

#include <set>

namespace mgc {

// "validation" or "test": in logs, records and messages.
std::string_view nameOf(Split split);

class EvaluationProgress {
public:
  // `patience`: --early-stop.
  explicit EvaluationProgress(int64_t patience = 0) : patience_(patience) {}

  void begin(Split split) { owed_.insert(split); } // the one behind the current step
  void drop(Split split) { owed_.erase(split); }   // it is not done
  // Its result, for the weights after `stepsDone`. A loss that is no finite number is not lower than any, and without a label
  // there is none.
  void complete(Split split, const EvaluationResult &result, int64_t stepsDone);
  void trained() { owed_.clear(); } // a step: the weights before it are gone
  bool owes(Split split) const { return owed_.contains(split); }
  std::vector<std::string> owed() const; // names

  bool isBest(int64_t stepsDone) const { return best_ && best_->step == stepsDone; }
  // As many evaluations in a row had no lower loss.
  bool endsTraining() const { return patience_ > 0 && best_ && best_->since >= patience_; }
  std::string whyItEnds() const; // for people

  void keepIn(CheckpointRecord &record) const;
  // Without `losses` the least loss of the checkpoint is of other data, and no loss is compared with it.
  void goOnFrom(const CheckpointRecord &record, bool losses);

private:
  int64_t patience_ = 0; // 0: none
  std::set<Split> owed_;
  std::optional<BestEvaluation> best_;
};

} // namespace mgc
