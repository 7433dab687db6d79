// See EvaluationProgress.h.
#include "runtime/train/EvaluationProgress.h"

#include <algorithm>
#include <cmath>

namespace mgc {

namespace {

constexpr std::array kEvaluated = {Split::valid, Split::test};

} // namespace

std::string_view nameOf(Split split) { return split == Split::valid ? "validation" : toString(split); }

void EvaluationProgress::complete(Split split, const EvaluationResult &result, int64_t stepsDone) {
  owed_.erase(split);
  if (split != Split::valid || result.tokens == 0)
    return;
  if (std::isfinite(result.loss) && (!best_ || result.loss < best_->loss))
    best_ = BestEvaluation{stepsDone, result.loss, 0};
  else if (best_)
    ++best_->since;
}

std::vector<std::string> EvaluationProgress::owed() const {
  std::vector<std::string> names;
  for (Split split : kEvaluated)
    if (owes(split))
      names.emplace_back(nameOf(split));
  return names;
}

std::string EvaluationProgress::whyItEnds() const {
  return fmt::format("--early-stop {}: in {} evaluations the validation loss did not fall below {:.4f}, that after {} "
                     "steps; the training ends",
                     patience_, best_->since, best_->loss, best_->step);
}

void EvaluationProgress::keepIn(CheckpointRecord &record) const {
  record.owed = owed();
  record.best = best_;
}

void EvaluationProgress::goOnFrom(const CheckpointRecord &record, bool losses) {
  owed_.clear();
  for (Split split : kEvaluated)
    if (std::ranges::find(record.owed, nameOf(split)) != record.owed.end())
      owed_.insert(split);
  best_ = losses ? record.best : std::nullopt;
}

} // namespace mgc
