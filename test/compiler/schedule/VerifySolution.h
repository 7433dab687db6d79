// The proof of a solution step by step, before a plan is made of it.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

// Every task exactly once and in dependency order; sends and recvs match in order per ordered pair of stages
// with equal value, microbatch and bytes; no deadlock when each stage issues its list in order and blocks on
// the waits of a step; every read finds what it expects, written before by list order of runs or a wait; two
// uses of overlapping memory, one of them a write, are ordered likewise. All violations found are in the
// message (at most 20).
Status verify(const Problem &problem, const Solution &solution);

} // namespace mgc::schedule
