// EvaluationProgress: which evaluations behind the current step are still to be done, and the validation losses of a training.
//   in:  the evaluations that are begun and those that are complete
//   out: the evaluations that a request to end has cut off; the least loss so far
// A checkpoint keeps it all, so a run that goes on evaluates as one that did not stop.
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/train/Training.h"

#include <set>

namespace mgc {

// "validation" or "test": in logs, records and messages.
std::string_view nameOf(Split split);

class EvaluationProgress {
public:
  void begin(Split split) { owed_.insert(split); } // the one behind the current step
  // Its result, for the weights after `stepsDone`. A loss that is no finite number is not lower than any, and without a label
  // there is none.
  void complete(Split split, const EvaluationResult &result, int64_t stepsDone);
  void trained() { owed_.clear(); } // a step: the weights before it are gone
  bool owes(Split split) const { return owed_.contains(split); }
  std::vector<std::string> owed() const; // names

  void keepIn(CheckpointRecord &record) const;
  void goOnFrom(const CheckpointRecord &record);

private:
  std::set<Split> owed_;
  std::optional<BestEvaluation> best_;
};

} // namespace mgc
