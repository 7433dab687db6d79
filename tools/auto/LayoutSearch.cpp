// See LayoutSearch.h.
#include "tools/auto/LayoutSearch.h"

#include "frontend/layout/Options.h"
#include "runtime/base/NumberText.h"

#include <fmt/ranges.h>

namespace mgc::tools {

using frontend::LayoutOptions;

frontend::SearchSpace LayoutSearch::layouts() const {
  return {model_->file.model, model_->supported, devices_, *space_.given.gbs, *space_.given.seq, space_.onlyOpen};
}

LayoutSearch LayoutSearch::within(int64_t memory) const {
  LayoutSearch other = *this;
  other.space_.memory = memory;
  if (other.space_.given.memory) // else the policies are given
    other.space_.given.memory = std::to_string(memory);
  return other;
}

LayoutSearch LayoutSearch::with(LayoutOptions given) const {
  LayoutSearch other = *this;
  other.space_.given = std::move(given);
  return other;
}

LayoutSearch LayoutSearch::onDevices(int64_t devices) const {
  LayoutSearch other = *this;
  other.devices_ = devices;
  other.space_.given.dp.reset(), other.space_.given.world.reset();
  return other;
}

planner::FoundLayouts LayoutSearch::fastest(const LayoutOptions &given, size_t wanted) const {
  const frontend::SearchSpace layouts = this->layouts();
  return planner::search({layouts,
                          given,
                          {space_.machine, space_.imbalance},
                          space_.memory,
                          space_.hostMemory,
                          wanted,
                          model_->make,
                          [&](const LayoutOptions &options) {
                            return frontend::resolveLayout(model_->file.model, options, model_->file.defaults,
                                                           model_->supported);
                          }});
}

std::vector<planner::Trial> LayoutSearch::tryEach(const std::vector<LayoutOptions> &options,
                                                  const std::vector<cost::Machine> &others) const {
  return planner::tryEach(options, model_->make, {space_.imbalance, others});
}

// The search refuses sizes that do not divide without a word: the first of them says why.
std::string LayoutSearch::reasonOf(const LayoutOptions &given, const planner::FoundLayouts &found) const {
  if (!found.refusal.empty())
    return found.refusal;
  std::optional<LayoutOptions> first;
  planner::SpaceOfLayouts(layouts(), given).forEach([&](const LayoutOptions &options, const planner::Picks &) {
    if (!first)
      first = options;
  });
  const auto layout = frontend::resolveLayout(model_->file.model, *first, model_->file.defaults, model_->supported);
  return layout.isOk() ? "their sizes do not divide" : layout.status().message();
}

bool LayoutSearch::needsMemory(const planner::FoundLayouts &found) {
  return found.counts.unfit + found.counts.tooLarge > 0;
}

// The options that are not searched may contradict each other.
std::string LayoutSearch::refusalOfGiven(LayoutOptions given) const {
  for (const frontend::LayoutOption &row : frontend::layoutOptions())
    if (frontend::isOpen(row, given))
      std::visit([&](auto field) { (given.*field).reset(); }, row.field);
  given.world = devices_;
  const auto layout = frontend::resolveLayout(model_->file.model, given, model_->file.defaults, model_->supported);
  return layout.isOk() ? "" : layout.status().message();
}

std::string LayoutSearch::refusalOf(const LayoutOptions &given, const planner::FoundLayouts &found) const {
  const planner::SearchCounts &counts = found.counts;
  if (const std::string refusal = counts.enumerated == 0 && space_.onlyOpen ? refusalOfGiven(given) : "";
      !refusal.empty())
    return refusal;
  if (counts.enumerated == 0)
    return fmt::format(
        "the devices cannot be shared out: {} is no product of a --tp that the heads divide over, a --cp "
        "that the sequence does, a --pp of at most {} layers and a --dp that --gbs {} divides over\n  "
        "given: {}\n  possible: another number of devices, another --gbs",
        devices_, model_->file.model.allLayerCount(), *space_.given.gbs, frontend::flagsOf(given));
  if (!needsMemory(found))
    return fmt::format("each of {} layouts is refused; the last: {}", counts.enumerated, reasonOf(given, found));
  return fmt::format("none of {} layouts fits into {} of a rank", counts.enumerated, bytesText(double(space_.memory)));
}

namespace {

std::string nameOf(const frontend::LayoutOption &option) {
  return option.flag.substr(option.flag.find_first_not_of('-'));
}

std::string shortValue(const frontend::LayoutOption &option, const LayoutOptions &options) {
  const std::string name = nameOf(option);
  return std::visit(
      [&](auto field) -> std::string {
        if constexpr (std::is_same_v<decltype(field), frontend::OptionField<int64_t>>)
          return fmt::format("{} {}", name, *(options.*field));
        else if constexpr (std::is_same_v<decltype(field), frontend::OptionField<std::string>>)
          return option.searchedWords ? *(options.*field) : fmt::format("{} {}", name, *(options.*field));
        else if constexpr (std::is_same_v<decltype(field), frontend::OptionField<bool>>)
          return *(options.*field) ? name : "no " + name;
        else
          return name;
      },
      option.field);
}

bool isLeast(const frontend::LayoutOption &option, const LayoutOptions &options) {
  const auto *field = std::get_if<frontend::OptionField<int64_t>>(&option.field);
  return field && options.**field == option.least;
}

} // namespace

std::string shortLayout(const LayoutOptions &given, const LayoutOptions &options) {
  std::vector<std::string> words, ofLeast;
  for (const frontend::LayoutOption &option : frontend::layoutOptions()) {
    const bool isChosen = std::visit(
        [&](auto field) { return (options.*field).has_value() && options.*field != given.*field; }, option.field);
    if (isChosen && !isLeast(option, options))
      words.push_back(shortValue(option, options));
    else if (isChosen && option.searched)
      ofLeast.push_back(shortValue(option, options));
    else if (option.isSearchedCut && frontend::isOpen(option, given))
      ofLeast.push_back(fmt::format("{} by work", nameOf(option)));
  }
  if (words.empty())
    words = std::move(ofLeast);
  return words.empty() ? "as given" : fmt::format("{}", fmt::join(words, ", "));
}

} // namespace mgc::tools
