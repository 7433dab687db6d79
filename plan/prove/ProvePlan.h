// The proof of a plan: mgc runs it on what it has made, mgrun on what it loads, before anything is allocated. docs/proof.md
// says what is proved, by which argument. In: a plan, perhaps edited. Out: success, or the first problems of the first part
// that has any.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc::plan {

Status provePlan(const Plan &plan);

} // namespace mgc::plan
