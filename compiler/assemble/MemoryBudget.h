// --memory: the policy of each layer, so that every stage's memory fits and the step is shortest (budget/Budget.h). In: decisions whose
// layers have the standard policy, and the functions of all variants. Out: the same with a variant for each instance.
//
// Bytes and seconds of a policy are those of its functions: frames that are placed, programs that are assembled. What the search
// adds up is proved by placing the stages: if one takes more (areas that are packed less well), its bound falls by as much, and
// the search is repeated.
#pragma once

#include "compiler/assemble/Decisions.h"
#include "compiler/assemble/TaskTimes.h"
#include "compiler/assemble/budget/Budget.h"

namespace mgc {

// Places all stages of the decisions: schedule and memory.
using PlaceStages = llvm::function_ref<Status(Decisions &)>;

struct PolicyQuestion {
  const TrainingSettings &training; // memory, schedule and microbatches
  ProgramSeconds times;             // seconds of all functions of all variants
  int64_t budget = 0;               // bytes of a stage
  // Steps of the schedule that are timed to find the choice of each stage that is best beside those of others.
  int64_t mostTasks = int64_t(1) << 20;
  budget::Limits limits = {};
  int64_t mostRounds = 16; // placements, each with lower bounds where one takes more than what was added up
  budget::KnownChoices *known = nullptr; // choices of questions before
  bool isDescribed = true;               // PlanBudget is wanted: what other budgets would give
};
// The budget of mg.training. Error: the machine that it names is unknown.
Result<PolicyQuestion> policyQuestionOf(mlir::ModuleOp module, const ProgramDecisions &programs);

// By how many seconds of a microbatch each stage takes longer than with the fastest policies, at the least, where it has so many bytes:
// budget::leastSeconds. The stages must be placed. Infinite: it does not fit.
std::vector<double> leastSlowdown(Decisions &decisions, const PolicyQuestion &question);

// Error: the least that a stage takes is more than the budget; which stage, by how much. leastBudget is set to the least that would do.
Status fitIntoMemory(Decisions &decisions, const PolicyQuestion &question, PlaceStages place,
                     std::optional<int64_t> &leastBudget);

} // namespace mgc
