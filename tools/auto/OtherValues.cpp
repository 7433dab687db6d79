// See OtherValues.h.
#include "tools/auto/OtherValues.h"

#include "tools/auto/PartDifferences.h"

#include <algorithm>
#include <set>

namespace mgc::tools {

namespace {

using frontend::LayoutOption;
using frontend::LayoutOptions;

std::string valueText(int64_t value) { return std::to_string(value); }
std::string valueText(const std::string &value) { return value; }

// The values that an option has in the space.
template <typename T> class ValuesOfOption {
public:
  explicit ValuesOfOption(frontend::OptionField<T> field) : field_(field) {}

  void add(const LayoutOptions &options) {
    if (const std::optional<T> &value = options.*field_)
      values_.insert(*value);
  }
  std::vector<LayoutOptions> others(const LayoutOptions &given, const LayoutOptions &best) const {
    std::vector<LayoutOptions> others;
    if (const std::optional<T> &own = best.*field_)
      for (const T &value : near(*own)) {
        others.push_back(given);
        others.back().*field_ = value;
      }
    return others;
  }
  std::string textIn(const LayoutOptions &options) const { return valueText(*(options.*field_)); }

private:
  std::vector<T> near(const T &own) const {
    if constexpr (std::is_same_v<T, std::string>) {
      std::vector<T> all(values_.begin(), values_.end());
      std::erase(all, own);
      return all;
    } else {
      std::vector<T> near;
      const auto place = values_.lower_bound(own);
      if (place != values_.begin())
        near.push_back(*std::prev(place));
      if (const auto next = values_.upper_bound(own); next != values_.end())
        near.push_back(*next);
      return near;
    }
  }

  frontend::OptionField<T> field_;
  std::set<T> values_;
};

using ValuesOfAny = std::variant<ValuesOfOption<int64_t>, ValuesOfOption<std::string>>;

ValuesOfAny valuesOf(const LayoutOption &row) {
  if (row.searched)
    return ValuesOfOption<int64_t>(std::get<frontend::OptionField<int64_t>>(row.field));
  return ValuesOfOption<std::string>(std::get<frontend::OptionField<std::string>>(row.field));
}

OtherValue bestOf(const LayoutSearch &search, const LayoutOptions &given, const planner::Trial &best) {
  OtherValue other;
  const planner::FoundLayouts found = search.fastest(given, 1);
  if (found.answers.empty()) {
    const std::string refusal = search.refusalOf(given, found);
    other.refusal = refusal.substr(0, refusal.find('\n'));
    return other;
  }
  const planner::Trial trial = search.tryEach({found.answers.front().options}).front();
  other.refusal = trial.refusal;
  if (!trial.hasPlan())
    return other;
  other.layout = shortLayout(search.given(), trial.options);
  other.seconds = trial.seconds, other.bytes = trial.bytes;
  constexpr size_t kMostParts = 3;
  other.differences = differencesOf(best, trial, kMostParts);
  return other;
}

} // namespace

std::vector<OtherValue> otherValues(const LayoutSearch &search, const planner::Trial &best) {
  planner::SpaceOfLayouts space(search.layouts(), search.given());
  std::vector<ValuesOfAny> values;
  for (const LayoutOption *row : space.rows())
    values.push_back(valuesOf(*row));
  space.forEach([&](const LayoutOptions &options, const planner::Picks &) {
    for (ValuesOfAny &any : values)
      std::visit([&](auto &own) { own.add(options); }, any);
  });
  std::vector<OtherValue> others;
  const auto add = [&](const auto &own, const std::string &flag) {
    for (const LayoutOptions &given : own.others(search.given(), best.options)) {
      OtherValue &other = others.emplace_back(bestOf(search, given, best));
      other.flag = flag, other.value = own.textIn(given);
    }
  };
  for (size_t i = 0; i < values.size(); ++i)
    std::visit([&](const auto &own) { add(own, space.rows()[i]->flag); }, values[i]);
  return others;
}

} // namespace mgc::tools
