// Each chunk of a stage runs once for each microbatch, or once in a step: one run makes all its calls, or several make
// them in order. In: lists with their repeats run, whose numbers are in range. Out: problems.
#include "test/plan/prove/VerifySchedule.h"

#include <map>

namespace mgc::schedule {

namespace {

using plan::Chunk;
using plan::ExpandedStep;

class RunsCheck {
public:
  RunsCheck(int64_t index, const plan::StagePlan &stage, Problems &problems)
      : index_(index), stage_(stage), problems_(problems) {}

  void check(const std::vector<ExpandedStep> &steps, int64_t microbatches) {
    for (const ExpandedStep &step : steps)
      if (step.kind == ExpandedStep::Kind::run)
        run(step);
    for (int64_t chunk = 0; chunk < int64_t(stage_.chunks.size()); ++chunk)
      if (isPerMicrobatch(stage_.chunks[chunk].task))
        for (int64_t m = 0; m < microbatches; ++m)
          complete(chunk, m);
      else
        complete(chunk, -1);
  }

private:
  int64_t callsOf(int64_t chunk) const {
    return plan::runCount(stage_.chunks[chunk].calls.size(), stage_.chunks[chunk].repeats);
  }

  void run(const ExpandedStep &step) {
    const auto [next, isFirst] = next_.try_emplace({step.chunk, step.microbatch}, 0);
    const Chunk &chunk = stage_.chunks[step.chunk];
    problems_.expect(isFirst || step.callCount >= 0, "stage {}: chunk '{}' runs twice for microbatch {}", index_,
                     chunk.name(), step.microbatch);
    problems_.expect(step.firstCall == next->second,
                     "stage {}: chunk '{}' runs from call {} on for microbatch {}, expected {}", index_, chunk.name(),
                     step.firstCall, step.microbatch, next->second);
    next->second = step.endCall(callsOf(step.chunk));
  }

  void complete(int64_t chunk, int64_t microbatch) {
    const auto found = next_.find({chunk, microbatch});
    if (problems_.expect(found != next_.end(), "stage {}: no step runs chunk '{}' for microbatch {}", index_,
                         stage_.chunks[chunk].name(), microbatch))
      problems_.expect(found->second == callsOf(chunk),
                       "stage {}: of the {} calls of chunk '{}' the steps run {} for microbatch {}", index_,
                       callsOf(chunk), stage_.chunks[chunk].name(), found->second, microbatch);
  }

  int64_t index_;
  const plan::StagePlan &stage_;
  Problems &problems_;
  std::map<std::pair<int64_t, int64_t>, int64_t> next_; // (chunk, microbatch) -> the call that comes next
};

} // namespace

void checkRuns(const plan::Plan &plan, const std::vector<std::vector<ExpandedStep>> &steps, Problems &problems) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    RunsCheck(int64_t(stage), plan.stages[stage], problems).check(steps[stage], plan.microbatches);
}

} // namespace mgc::schedule
