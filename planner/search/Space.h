// The layouts among which a search chooses. In: the rows of the table of options that say which values are searched, and the options
// that are given, which are not. Out: each combination, as short as it can be kept.
#pragma once

#include "frontend/layout/Options.h"

#include <functional>

namespace mgc::planner {

// A value of each option that is searched, in the order of the table: a number, or the number of a word (SpaceOfLayouts::words).
using Picks = std::vector<int64_t>;

class SpaceOfLayouts {
public:
  // Options of `given` are taken as they are, but for those that are open (frontend::isOpen).
  SpaceOfLayouts(const frontend::SearchSpace &space, frontend::LayoutOptions given);

  void forEach(const std::function<void(const frontend::LayoutOptions &, const Picks &)> &visit);
  frontend::LayoutOptions optionsOf(const Picks &picks) const;
  // The layers of the pipeline's chunks are not given.
  bool opensCut() const { return opensCut_; }
  // The options that are searched.
  const std::vector<const frontend::LayoutOption *> &rows() const { return rows_; }

private:
  void choose(size_t row, const std::function<void(const frontend::LayoutOptions &, const Picks &)> &visit);
  int64_t numberOf(const std::string &word);
  bool isSearched(const frontend::LayoutOption &row) const;

  const frontend::SearchSpace space_;
  frontend::LayoutOptions given_;
  bool opensCut_ = false;
  std::vector<const frontend::LayoutOption *> rows_;
  std::vector<std::string> words_;
  frontend::LayoutOptions chosen_;
  Picks picks_;
};

} // namespace mgc::planner
