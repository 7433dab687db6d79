// The fastest layouts that fit. In: a space of layouts, a machine, the memory of a rank. Out: the best of them as estimated, exact for
// the cost model: a layout is left out where a bound says that it cannot be among them.
#pragma once

#include "planner/search/Estimate.h"
#include "planner/search/Space.h"

namespace mgc::planner {

struct SearchRequest {
  const frontend::SearchSpace &space;
  const frontend::LayoutOptions &given; // flags, and defaults of the model's file where these are silent
  PricedMachine machine;
  int64_t memory = 0, hostMemory = 0; // bytes that a rank may take
  size_t wanted = 1;
  const MakeModule &make;
  std::function<Result<frontend::Layout>(const frontend::LayoutOptions &)> resolve;
};

struct Answer {
  frontend::LayoutOptions options;
  frontend::Layout layout;
  Estimate estimate;
};

struct SearchCounts {
  int64_t enumerated = 0, refused = 0; // layouts, and those of them that no layout can be
  int64_t tooLarge = 0, tooSlow = 0;   // left out by a bound of memory, of time
  int64_t estimated = 0;               // estimated with the fastest policies
  int64_t cuts = 0;                    // estimated with another cut of a pipeline
  int64_t fitted = 0, unfit = 0; // estimated with others, for these do not fit, and those of them that no policy fits
  int64_t shapes = 0, compiled = 0; // ShapeBlocks, and how often some were compiled
};

struct FoundLayouts {
  std::vector<Answer>
      answers; // the fastest first; of two as fast the one that takes less memory, then the first of the space
  SearchCounts counts;
  std::string refusal, misfit; // where there is none at all: why the last was refused, and why the last did not fit
};

FoundLayouts search(const SearchRequest &request);

} // namespace mgc::planner
