// Which ranks have which experts. Of the ranks of a stage, tp x cp x dp with tp nearest, etp neighbours share out the columns of
// each expert, ep such groups the experts, and edp of these have the same: Megatron-LM's order. So etp x ep may lie in tp, be tp
// and a part of cp, or reach into dp, as long as all sizes cut the ranks at common places.
//     tp 2, dp 4, etp 1, ep 4   ranks 0..3 have a quarter of the experts each, and so have 4..7
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

bool hasExperts(const ModelDescription &model);

// etp, ep and edp; and what tp, cp and dp have beyond ep x etp, over which tokens stay split among experts: edp.tp, edp.cp, edp.dp.
std::vector<plan::MeshView> viewsOfExperts(const Layout &layout);

// Every rule is checked, each with the values that satisfy it. Of a layout whose tp, cp and dp are right.
void checkExpertRanks(const ModelDescription &model, const Layout &layout, Problems &problems);

// Sets ep and etp to sizes no larger than those of the layout that suit its tp and dp, and cp ranks of context.
void setNearestExpertRanks(const ModelDescription &model, const Layout &layout, int64_t cp, LayoutOptions &near);

} // namespace mgc::frontend
