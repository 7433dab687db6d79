// See RunOptions.h.
#include "runtime/train/RunOptions.h"

#include "runtime/base/Json.h"
#include "runtime/base/Problems.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

template <typename Value> std::string textOf(const RunOption &option, const Value &value) {
  if constexpr (std::is_same_v<Value, std::string>)
    if (value.empty())
      return option.details.none;
  return fmt::format("{}", value);
}
template <typename Value> std::string textOf(const RunOption &option, const std::optional<Value> &value) {
  if (!value)
    return option.details.none;
  if (!option.details.some.empty())
    return option.details.some;
  if constexpr (std::is_same_v<Value, std::string>)
    return shortened(*value);
  else
    return textOf(option, *value);
}

} // namespace

std::string shortened(const std::string &text) {
  constexpr size_t kLongest = 120;
  return text.size() <= kLongest && printable(text) == text
             ? text
             : fmt::format("a text with the hash {:016x}", hashName(text));
}

std::optional<std::string> RunOption::textIn(const TrainingOptions &options) const {
  if (details.absent && details.absent(options))
    return std::nullopt;
  return details.text ? details.text(options) : valueIn(options);
}

// A row has one accessor, for parsing too; here it only reads.
std::string RunOption::valueIn(const TrainingOptions &options) const {
  return std::visit(
      [&](auto member) -> std::string {
        if constexpr (std::is_same_v<decltype(member), SetWord>)
          return "";
        else
          return textOf(*this, member(const_cast<TrainingOptions &>(options)));
      },
      member);
}

Settings settingsOf(const TrainingOptions &options, std::initializer_list<Agrees> kinds) {
  Settings settings;
  for (const RunOption &option : runOptions())
    if (std::ranges::find(kinds, option.agrees) != kinds.end())
      if (std::optional<std::string> text = option.textIn(options))
        settings.emplace_back(option.flag(), std::move(*text));
  return settings;
}

Status verifyEffect(const TrainingOptions &options, const IsGiven &isGiven) {
  Problems problems;
  for (const RunOption &option : runOptions())
    for (const IdleWhen &idle : option.details.idle)
      problems.expect(!isGiven(option.flag()) || !idle.isSo(options), "{}: would do nothing: {}; leave it out",
                      option.flag(), idle.why);
  return problems.status();
}

} // namespace mgc
