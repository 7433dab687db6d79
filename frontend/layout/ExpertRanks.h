// Assigns experts to ranks. Among the ranks of a stage, tp x cp x dp with tp nearest, etp neighbours share out the
// columns of each expert, ep such groups the experts, and edp of these have the same: Megatron-LM's order. So etp x ep
// may lie in tp, be tp and a part of cp, or reach into dp, as long as all sizes cut the ranks at common places.
//     tp 2, dp 4, etp 1, ep 4   ranks 0..3 have a quarter of the experts each, and so have 4..7
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Whether tokens divide over all ranks of tp and cp, as rows that travel need: those of one rank are then no other's.
bool tokensDivide(const Layout &layout);

// etp, ep and edp; what tp, cp and dp have beyond ep x etp, over which rows of experts are split besides: edp.tp, edp.cp, edp.dp;
// and over what tokens are split where their rows are made: tokens.tp, .cp, .dp, the same or, where rows travel, all beyond etp.
std::vector<plan::MeshView> viewsOfExperts(const Layout &layout);

// Every rule is checked, each with the values that satisfy it. Precondition: the layout's tp, cp and dp are right.
void checkExpertRanks(const ModelDescription &model, const Layout &layout, Problems &problems);

// Sets ep and etp to sizes no larger than those of the layout that suit its tp and dp, and cp ranks of context.
void setNearestExpertRanks(const ModelDescription &model, const Layout &layout, int64_t cp, LayoutOptions &near);

} // namespace mgc::frontend
