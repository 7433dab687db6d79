// One search of the layouts of a number of devices, and layouts in short.
#pragma once

#include "planner/search/Search.h"
#include "tools/auto/ChooseLayout.h"
#include "tools/auto/SearchedSpace.h"

namespace mgc::tools {

class LayoutSearch {
public:
  LayoutSearch(const SearchedSpace &space, const AutoModel &model, int64_t devices)
      : space_(space), model_(model), devices_(devices) {}

  // The fastest layouts that have the options of `given`.
  planner::FoundLayouts fastest(const frontend::LayoutOptions &given, size_t wanted) const;
  // Why there is none.
  std::string refusalOf(const frontend::LayoutOptions &given, const planner::FoundLayouts &found) const;
  frontend::SearchSpace layouts() const;
  const frontend::LayoutOptions &given() const { return space_.given; }
  const planner::MakeModule &make() const { return model_.make; }

private:
  std::string reasonOf(const frontend::LayoutOptions &given, const planner::FoundLayouts &found) const;

  const SearchedSpace &space_;
  const AutoModel &model_;
  const int64_t devices_;
};

// "tp 2, dp 4, mbs 2, zero 1, 1f1b": the options that `given` has not, but for numbers that are the least.
std::string shortLayout(const frontend::LayoutOptions &given, const frontend::LayoutOptions &options);

} // namespace mgc::tools
