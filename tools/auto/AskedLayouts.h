// mgc compile --explain tp=4,pp=8: where a layout of the user's own stands among the answers, and why.
#pragma once

#include "tools/auto/ProveLayouts.h"

namespace mgc::tools {

// A layout whose options of these are fixed beside those of the command line; the others are searched.
struct AskedSearch {
  std::string text; // "tp=4,pp=8"
  LayoutSearch search;
};

// They are of the same training on the same devices as `space`. Error: a text that is none of these, or that contradicts itself.
Result<std::vector<AskedSearch>> askedSearches(const CompileFlags &flags, const AutoModel &model,
                                               const SearchedSpace &space);

// `best`: the first of `search`.
AskedLayout askedLayout(const AskedSearch &asked, const LayoutSearch &search, const CompileFlags &flags,
                        const planner::Trial &best);

} // namespace mgc::tools
