// One search of the layouts of a number of devices, and layouts in short.
#pragma once

#include "planner/search/Search.h"
#include "tools/auto/ChooseLayout.h"
#include "tools/auto/SearchedSpace.h"

namespace mgc::tools {

class LayoutSearch {
public:
  LayoutSearch(SearchedSpace space, const AutoModel &model, int64_t devices)
      : space_(std::move(space)), model_(&model), devices_(devices) {}

  // The same with so many bytes for a rank.
  LayoutSearch within(int64_t memory) const;
  // With these options.
  LayoutSearch with(frontend::LayoutOptions given) const;
  // On so many devices, with any number of data ranks.
  LayoutSearch onDevices(int64_t devices) const;

  // The fastest layouts that have the options of `given`.
  planner::FoundLayouts fastest(const frontend::LayoutOptions &given, size_t wanted) const;
  // Whether memory is why there is none.
  static bool needsMemory(const planner::FoundLayouts &found);
  // Why there is none.
  std::string refusalOf(const frontend::LayoutOptions &given, const planner::FoundLayouts &found) const;
  frontend::SearchSpace layouts() const;
  int64_t devices() const { return devices_; }
  const SearchedSpace &space() const { return space_; }
  const frontend::LayoutOptions &given() const { return space_.given; }
  // Up to plans, predicted on the machine with the load of the search.
  std::vector<planner::Trial> tryEach(const std::vector<frontend::LayoutOptions> &options,
                                      const std::vector<cost::Machine> &others = {}) const;

private:
  std::string refusalOfGiven(frontend::LayoutOptions given) const;
  std::string reasonOf(const frontend::LayoutOptions &given, const planner::FoundLayouts &found) const;

  SearchedSpace space_;
  const AutoModel *model_;
  int64_t devices_;
};

// "tp 2, dp 4, mbs 2, zero 1, 1f1b": the options that `given` has not, but for numbers that are the least, if there are others.
std::string shortLayout(const frontend::LayoutOptions &given, const frontend::LayoutOptions &options);

} // namespace mgc::tools
