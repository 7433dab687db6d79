// See Space.h.
#include "planner/search/Space.h"

#include "frontend/layout/StageCut.h"

#include <algorithm>

namespace mgc::planner {

using frontend::LayoutOption;
using frontend::LayoutOptions;

static void set(std::optional<int64_t> &option, int64_t value) {
  option = value == frontend::kNotGiven ? std::nullopt : std::optional(value);
}

SpaceOfLayouts::SpaceOfLayouts(const frontend::SearchSpace &space, LayoutOptions given)
    : space_(space), given_(std::move(given)) {
  for (const LayoutOption &row : frontend::layoutOptions())
    if (row.isSearchedCut && frontend::isOpen(row, given_)) {
      opensCut_ = true;
      std::visit([&](auto field) { (given_.*field).reset(); }, row.field);
    } else if (isSearched(row)) {
      rows_.push_back(&row);
      std::visit([&](auto field) { (given_.*field).reset(); }, row.field);
    }
  opensCut_ = (opensCut_ || !space_.onlyOpen) && !frontend::isCutGiven(given_);
}

bool SpaceOfLayouts::isSearched(const LayoutOption &row) const {
  if (space_.onlyOpen)
    return row.searched && frontend::isOpen(row, given_);
  return (row.searched || row.searchedWords) &&
         !std::visit([&](auto field) { return (given_.*field).has_value(); }, row.field);
}

void SpaceOfLayouts::forEach(const std::function<void(const LayoutOptions &, const Picks &)> &visit) {
  chosen_ = given_;
  picks_.assign(rows_.size(), 0);
  choose(0, visit);
}

void SpaceOfLayouts::choose(size_t number, const std::function<void(const LayoutOptions &, const Picks &)> &visit) {
  if (number == rows_.size()) {
    if (const int64_t dp = space_.dataRanks(chosen_); dp > 0) {
      const std::optional<int64_t> given = std::exchange(chosen_.dp, dp);
      visit(chosen_, picks_);
      chosen_.dp = given;
    }
    return;
  }
  const LayoutOption &row = *rows_[number];
  if (row.searched) {
    const auto field = std::get<frontend::OptionField<int64_t>>(row.field);
    for (const int64_t value : row.searched(space_, chosen_)) {
      picks_[number] = value;
      set(chosen_.*field, value);
      choose(number + 1, visit);
    }
    (chosen_.*field).reset();
  } else {
    const auto field = std::get<frontend::OptionField<std::string>>(row.field);
    for (const std::string &word : row.searchedWords(space_, chosen_)) {
      chosen_.*field = word;
      picks_[number] = numberOf(word);
      choose(number + 1, visit);
    }
    (chosen_.*field).reset();
  }
}

int64_t SpaceOfLayouts::numberOf(const std::string &word) {
  const auto found = std::ranges::find(words_, word);
  if (found == words_.end()) {
    words_.push_back(word);
    return std::ssize(words_) - 1;
  }
  return found - words_.begin();
}

LayoutOptions SpaceOfLayouts::optionsOf(const Picks &picks) const {
  LayoutOptions options = given_;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i]->searched)
      set(options.*std::get<frontend::OptionField<int64_t>>(rows_[i]->field), picks[i]);
    else
      options.*std::get<frontend::OptionField<std::string>>(rows_[i]->field) = words_[size_t(picks[i])];
  options.dp = space_.dataRanks(options);
  return options;
}

} // namespace mgc::planner
