// Layouts that a search found, compiled up to their plans, which the report is of, and compared with what the search said of them.
#pragma once

#include "tools/auto/AutoReport.h"
#include "tools/auto/LayoutSearch.h"

namespace mgc::tools {

struct Proof {
  ProvedLayout layout;
  planner::Trial trial;
};

// The fastest first; those without a plan, an error of mgc, last. `others`: machines on which the seconds are predicted too.
std::vector<Proof> prove(const LayoutSearch &search, const CompileFlags &flags,
                         const std::vector<planner::Answer> &answers, const std::vector<cost::Machine> &others = {});
Proof prove(const LayoutSearch &search, const CompileFlags &flags, const planner::Answer &answer);

} // namespace mgc::tools
