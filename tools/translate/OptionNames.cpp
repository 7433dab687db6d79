// See OptionNames.h.
#include "tools/translate/OptionNames.h"

#include "model/ModelFlags.h"
#include "tools/flags/FlagChecks.h"
#include "tools/run/RunFlags.h"
#include "tools/translate/MegatronLine.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

using frontend::LayoutOption;
using Words = std::vector<std::string>;

bool isSwitch(const LayoutOption &option) { return std::holds_alternative<frontend::OptionField<bool>>(option.field); }
bool isWholeNumber(const LayoutOption &option) {
  return std::holds_alternative<frontend::OptionField<int64_t>>(option.field);
}
bool isList(const LayoutOption &option) {
  return std::holds_alternative<frontend::OptionField<Words>>(option.field) ||
         std::holds_alternative<frontend::OptionField<std::vector<int64_t>>>(option.field);
}

const LayoutOption &layoutOption(const std::string &flag) {
  return *std::ranges::find(frontend::layoutOptions(), flag, &LayoutOption::flag);
}

ValueProblem oneOf(const Words &words, const std::string &value) {
  if (std::ranges::find(words, value) != words.end())
    return {};
  return {fmt::format("found '{}', possible: {}", value, fmt::join(words, ", "))};
}

ValueProblem numberProblem(const LayoutOption &option, std::string value) {
  if (isWholeNumber(option) || std::holds_alternative<frontend::OptionField<std::vector<int64_t>>>(option.field))
    return {wholeNumber(option.least, option.most)(value)};
  if (std::holds_alternative<frontend::OptionField<double>>(option.field))
    return {finiteNumber(double(option.least), double(option.most))(value)};
  return {};
}

ValueProblem problemOf(const LayoutOption &option, const std::string &value, const frontend::Supported &supported) {
  if (!option.words)
    return numberProblem(option, value);
  ValueProblem problem = oneOf(option.words(supported), value);
  if (!problem.text.empty() && !option.orFile.empty())
    return {};
  if (const std::string why = option.whyNot ? option.whyNot(value) : ""; !problem.text.empty() && !why.empty())
    return {fmt::format("{} {}", value, why), true};
  problem.isRefused = !problem.text.empty();
  return problem;
}

ValueProblem problemOf(const RunOption &option, const std::string &value) {
  std::string text = value;
  const OptionRange &range = option.range;
  switch (range.kind) {
  case OptionRange::Kind::whole:
    return {wholeNumber(range.least, range.most)(text)};
  case OptionRange::Kind::number:
    return {finiteNumber(range.lowest, range.highest)(text)};
  case OptionRange::Kind::words: {
    ValueProblem problem = oneOf(range.words, value);
    problem.isRefused = !problem.text.empty();
    return problem;
  }
  default:
    return {};
  }
}

size_t mostValues(const NamedOption &option) {
  constexpr auto kAny = std::numeric_limits<size_t>::max();
  if (option.isSwitch)
    return 0;
  if (option.layout)
    return isList(*option.layout) ? size_t(option.layout->mostValues) : 1;
  if (!option.run)
    return option.words ? 1 : kAny;
  if (!option.run->details.values.empty())
    return size_t(std::ranges::count(option.run->details.values, ' ')) + 1;
  return std::holds_alternative<OptionMember<Words>>(option.run->member) ||
                 std::holds_alternative<OptionMember<std::vector<int64_t>>>(option.run->member)
             ? kAny
             : 1;
}

} // namespace

std::optional<NamedOption> compileOptionNamed(const std::string &flag) {
  for (const LayoutOption &option : frontend::layoutOptions())
    if (option.flag == flag || option.negation() == flag ||
        std::ranges::find(option.aliases, flag) != option.aliases.end())
      return NamedOption{.own = option.flag, .layout = &option, .isSwitch = isSwitch(option)};
  for (const frontend::OptionShorthand &shorthand : frontend::optionShorthands())
    if (shorthand.flag == flag)
      return NamedOption{.own = shorthand.of,
                         .isSum = isWholeNumber(layoutOption(shorthand.of)),
                         .layout = &layoutOption(shorthand.of),
                         .isSwitch = true};
  for (const frontend::OptionWords &words : frontend::optionWords())
    if (words.flag == flag)
      return NamedOption{.own = flag, .words = &words};
  return std::nullopt;
}

std::optional<NamedOption> runOptionNamed(const std::string &flag) {
  for (const RunOption &option : runOptions())
    if (const Words names = flagsOf(option);
        option.flag().starts_with('-') && std::ranges::find(names, flag) != names.end())
      return NamedOption{.own = option.flag(), .run = &option, .isSwitch = option.isSwitch()};
  return std::nullopt;
}

size_t mostValuesOf(const std::string &flag) {
  for (const std::string &name : spellingsOf(flag)) {
    if (const frontend::ModelFlag *fact = frontend::findModelFlag(name))
      return fact->isSwitch ? 0 : 1;
    for (const auto &named : {compileOptionNamed, runOptionNamed})
      if (const auto option = named(name))
        return mostValues(*option);
  }
  const auto answer = answerOf(flag, "");
  if (!answer || !answer->row->onlyValue.empty())
    return 1;
  const std::string &here = answer->row->here;
  const bool isSwitch = here.empty() ? answer->goesOn && answer->values == 0 : here.find("{value") == here.npos;
  return isSwitch ? 0 : std::max<size_t>(answer->values, 1);
}

ValueProblem problemOf(const NamedOption &option, const Words &values, const frontend::Supported &supported) {
  if (option.isSwitch)
    return values.empty() ? ValueProblem() : ValueProblem{fmt::format("takes no value, found '{}'", values.front())};
  if (values.empty())
    return {"its value is missing"};
  if (const size_t most = mostValues(option); values.size() > most)
    return {fmt::format("found {} values, expected {}", values.size(), most)};
  if (option.run && !option.run->details.values.empty() && values.size() < mostValues(option))
    return {fmt::format("found {} values, expected {}", values.size(), option.run->details.values)};
  if (const auto variable = std::ranges::find_if(values, isOfShell); variable != values.end())
    return {fmt::format("found '{}', which no shell has replaced", *variable)};
  for (const std::string &value : values) {
    const ValueProblem problem = option.layout  ? problemOf(*option.layout, value, supported)
                                 : option.words ? oneOf(option.words->words, value)
                                 : option.run   ? problemOf(*option.run, value)
                                                : ValueProblem();
    if (!problem.text.empty())
      return problem;
  }
  return {};
}

} // namespace mgc::tools
