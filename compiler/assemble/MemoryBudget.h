// --memory: the policy of each layer, so that every stage's memory fits and the step is shortest (budget/Budget.h). In: decisions whose
// layers have the standard policy, and the functions of all variants. Out: the same with a variant for each instance.
//
// Bytes and seconds of a policy are those of its functions: frames that are placed, programs that are assembled. What the search
// adds up is proved by placing the stages: if one takes more (areas that are packed less well), its bound falls by as much, and
// the search is repeated.
#pragma once

#include "compiler/assemble/Decisions.h"

namespace mgc {

// Places all stages of the decisions: schedule and memory.
using PlaceStages = llvm::function_ref<Status(Decisions &)>;
// programs: of all functions of all variants.
// Error: the least that a stage takes is more than the budget; which stage, by how much. leastBudget is set to the least that would do.
Status fitIntoMemory(Decisions &decisions, const ProgramDecisions &programs, PlaceStages place,
                     std::optional<int64_t> &leastBudget);

} // namespace mgc
