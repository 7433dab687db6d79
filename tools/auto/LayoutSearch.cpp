// See LayoutSearch.h.
#include "tools/auto/LayoutSearch.h"

#include "frontend/layout/Options.h"
#include "runtime/base/NumberText.h"

#include <fmt/ranges.h>

namespace mgc::tools {

using frontend::LayoutOptions;

frontend::SearchSpace LayoutSearch::layouts() const {
  return {model_.file.model, model_.supported, devices_, *space_.given.gbs, *space_.given.seq};
}

planner::FoundLayouts LayoutSearch::fastest(const LayoutOptions &given, size_t wanted) const {
  const frontend::SearchSpace layouts = this->layouts();
  return planner::search({layouts, given, space_.machine, space_.memory, space_.hostMemory, wanted, model_.make,
                          [&](const LayoutOptions &options) {
                            return frontend::resolveLayout(model_.file.model, options, model_.file.defaults,
                                                           model_.supported);
                          }});
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
  const auto layout = frontend::resolveLayout(model_.file.model, *first, model_.file.defaults, model_.supported);
  return layout.isOk() ? "their sizes do not divide" : layout.status().message();
}

std::string LayoutSearch::refusalOf(const LayoutOptions &given, const planner::FoundLayouts &found) const {
  const planner::SearchCounts &counts = found.counts;
  if (counts.enumerated == 0)
    return fmt::format(
        "the devices cannot be shared out: {} is no product of a --tp that the heads divide over, a --cp "
        "that the sequence does, a --pp of at most {} layers and a --dp that --gbs {} divides over\n  "
        "given: {}\n  possible: another number of devices, another --gbs",
        devices_, model_.file.model.allLayerCount(), *space_.given.gbs, frontend::flagsOf(given));
  if (counts.unfit + counts.tooLarge == 0)
    return fmt::format("each of {} layouts is refused; the last: {}", counts.enumerated, reasonOf(given, found));
  const std::string none =
      fmt::format("none of {} layouts fits into {} of a rank", counts.enumerated, bytesText(double(space_.memory)));
  return found.refusal.empty()
             ? fmt::format("{}: its parameters alone take more in each\n  possible: more devices, more --memory", none)
             : fmt::format("{}; the last: {}", none, found.refusal);
}

static std::string shortValue(const frontend::LayoutOption &option, const LayoutOptions &options) {
  const std::string name = option.flag.substr(option.flag.find_first_not_of('-'));
  return std::visit(
      [&](auto field) -> std::string {
        if constexpr (std::is_same_v<decltype(field), frontend::OptionField<int64_t>>)
          return *(options.*field) == option.least ? "" : fmt::format("{} {}", name, *(options.*field));
        else if constexpr (std::is_same_v<decltype(field), frontend::OptionField<std::string>>)
          return *(options.*field);
        else
          return name;
      },
      option.field);
}

std::string shortLayout(const LayoutOptions &given, const LayoutOptions &options) {
  std::vector<std::string> words;
  for (const frontend::LayoutOption &option : frontend::layoutOptions()) {
    const bool isChosen = std::visit(
        [&](auto field) { return (options.*field).has_value() && options.*field != given.*field; }, option.field);
    if (isChosen)
      words.push_back(shortValue(option, options));
  }
  std::erase(words, "");
  return words.empty() ? "as given" : fmt::format("{}", fmt::join(words, ", "));
}

} // namespace mgc::tools
