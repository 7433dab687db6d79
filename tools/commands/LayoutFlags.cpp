// See LayoutFlags.h.
#include "tools/commands/LayoutFlags.h"

#include "tools/flags/ConfigWords.h"
#include "tools/flags/FlagChecks.h"
#include "tools/flags/Usage.h"
#include "tools/process/Process.h"

#include <fmt/ranges.h>
#include <map>

namespace mgc::tools {

namespace {

using frontend::LayoutOption;
using frontend::LayoutOptions;

// LayoutFlags: declares each row of the table to CLI11, and what excludes what.
class LayoutFlags {
public:
  LayoutFlags(CLI::App &group, LayoutOptions &layout, const frontend::Supported &supported)
      : group_(group), layout_(layout), supported_(supported) {}

  void add(const LayoutOption &option) {
    std::string names = option.flag;
    for (const std::string &alias : option.aliases)
      names += "," + alias;
    made_[option.flag] = std::visit([&](auto field) { return add(option, names, layout_.*field); }, option.field);
  }

  void add(const frontend::OptionShorthand &shorthand) {
    const auto option = std::ranges::find(frontend::layoutOptions(), shorthand.of, &LayoutOption::flag);
    const std::string text = shorthand.value;
    CLI::Option *made = group_.add_flag_callback(
        shorthand.flag,
        [&layout = layout_, option, text] { std::visit([&](auto field) { set(layout.*field, text); }, option->field); },
        fmt::format("Megatron-LM's name of {} {}", shorthand.of, text));
    made->disable_flag_override()->excludes(made_.at(shorthand.of));
    const bool isNumber = std::visit([&](auto field) { return isWholeNumber(layout_.*field); }, option->field);
    for (const frontend::OptionShorthand &other : frontend::optionShorthands())
      if (!isNumber && other.of == shorthand.of && made_.contains(other.flag))
        made->excludes(made_.at(other.flag));
    made_[shorthand.flag] = made;
  }

  // Behind its shorthands: values are set in the order in which flags are added.
  void add(const frontend::OptionWords &words) {
    const auto option = std::ranges::find(frontend::layoutOptions(), words.of, &LayoutOption::flag);
    std::vector<CLI::Option *> beside;
    for (const std::string &flag : words.beside)
      beside.push_back(made_.at(flag));
    const auto read = [&layout = layout_, option, beside, all = words.words, names = words.beside, flag = words.flag,
                       of = words.of](const std::string &word) {
      if (std::ranges::none_of(beside, [](const CLI::Option *flag) { return flag->count() > 0; }))
        return say(stderr, "{} does nothing here: it is read beside {} alone; {} says it by itself\n", flag,
                   fmt::join(names, " or "), of);
      const int64_t number = std::ranges::find(all, word) - all.begin();
      std::visit([&](auto field) { setNumber(layout.*field, number); }, option->field);
    };
    group_
        .add_option_function<std::string>(words.flag, read,
                                          fmt::format("Megatron-LM's name of {} 0 to {}: {}; read beside {} alone",
                                                      words.of, words.words.size() - 1, fmt::join(words.words, ", "),
                                                      fmt::join(words.beside, " or ")))
        ->check(CLI::IsMember(words.words))
        ->excludes(made_.at(words.of));
  }

private:
  CLI::App &group_;
  LayoutOptions &layout_;
  const frontend::Supported &supported_;
  std::map<std::string, CLI::Option *> made_;

  template <typename T> static void set(std::optional<T> &value, const std::string &text) {
    if constexpr (std::is_same_v<T, int64_t>)
      value = std::max(value.value_or(0), int64_t(std::stoll(text)));
    else if constexpr (std::is_same_v<T, std::string>)
      value = text;
    else if constexpr (std::is_same_v<T, bool>)
      value = text == "true";
  }
  template <typename T> static void setNumber(std::optional<T> &value, int64_t number) {
    if constexpr (std::is_same_v<T, int64_t>)
      value = number;
  }
  template <typename T> static bool isWholeNumber(const std::optional<T> &) { return std::is_same_v<T, int64_t>; }

  CLI::Option *add(const LayoutOption &option, const std::string &names, std::optional<int64_t> &value) {
    CLI::Option *made = group_.add_option(names, value, helpOf(option, supported_))->transform(wholeNumber());
    if (option.takesAuto())
      made->transform(CLI::Validator(
          [](std::string &text) {
            if (text == "auto")
              text = std::to_string(frontend::kAuto);
            return std::string();
          },
          "", ""));
    return made;
  }
  CLI::Option *add(const LayoutOption &option, const std::string &names, std::optional<double> &value) {
    return group_.add_option(names, value, helpOf(option, supported_))->transform(finiteNumber());
  }
  CLI::Option *add(const LayoutOption &option, const std::string &names, std::optional<std::string> &value) {
    return group_.add_option(names, value, helpOf(option, supported_))->check(notEmpty());
  }
  CLI::Option *add(const LayoutOption &option, const std::string &names,
                   std::optional<std::vector<std::string>> &value) {
    return addList(option, names, value, notEmpty());
  }
  CLI::Option *add(const LayoutOption &option, const std::string &names, std::optional<std::vector<int64_t>> &value) {
    return addList(option, names, value, wholeNumber());
  }
  template <typename T>
  CLI::Option *addList(const LayoutOption &option, const std::string &names, std::optional<std::vector<T>> &value,
                       const CLI::Validator &check) {
    return tools::addList<T>(
        group_, names, [&value](std::vector<T> values) { value = std::move(values); }, helpOf(option, supported_),
        check, option.mostValues);
  }
  CLI::Option *add(const LayoutOption &option, const std::string &names, std::optional<bool> &value) {
    CLI::Option *on = group_.add_flag_callback(names, [&] { value = true; }, helpOf(option, supported_));
    on->disable_flag_override();
    if (option.hasNegation)
      group_.add_flag_callback(
                option.negation(), [&] { value = false; }, fmt::format("Without {}", option.flag))
          ->disable_flag_override()
          ->excludes(on);
    return on;
  }
};

} // namespace

std::string helpOf(const LayoutOption &option, const frontend::Supported &supported) {
  std::string help = option.help;
  if (option.words)
    help += fmt::format(": {}", fmt::join(option.words(supported), ", "));
  const std::string standard = option.standardOf(supported);
  return standard.empty() ? help : fmt::format("{} (default: {})", help, standard);
}

void addLayoutFlags(CLI::App &app, LayoutOptions &layout, const frontend::Supported &supported) {
  LayoutFlags flags(*app.add_option_group("Layout"), layout, supported);
  for (const LayoutOption &option : frontend::layoutOptions())
    flags.add(option);
  for (const frontend::OptionShorthand &shorthand : frontend::optionShorthands())
    flags.add(shorthand);
  for (const frontend::OptionWords &words : frontend::optionWords())
    flags.add(words);
}

static Result<ConfigEntry> readKey(const CLI::App &app, const std::string &part) {
  const size_t end = part.find('=');
  ConfigEntry entry{part.substr(0, end), {end == part.npos ? "true" : part.substr(end + 1)}};
  std::ranges::replace(entry.key, '_', '-');
  if (app.get_option_no_throw("--" + entry.key))
    return entry;
  std::vector<std::string> near = nearestNames("--" + entry.key, longNamesOf(app));
  for (std::string &name : near)
    name.erase(0, 2);
  return errorf("'{}' is no option of a layout{}", part,
                near.empty() ? ", expected such as tp=4,pp=8" : fmt::format("\n  possible: {}", fmt::join(near, ", ")));
}

Result<LayoutOptions> parseLayoutKeys(const std::string &text, const frontend::Supported &supported) {
  LayoutOptions layout;
  CLI::App app;
  addLayoutFlags(app, layout, supported);
  std::vector<ConfigEntry> entries;
  for (const std::string &part : splitAtCommas(text)) {
    MGC_ASSIGN(entry, readKey(app, part));
    entries.push_back(std::move(entry));
  }
  MGC_ASSIGN(read, wordsOf(text, entries, app, {}, /*hasPositional=*/true));
  try {
    std::ranges::reverse(read.words);
    app.parse(std::move(read.words));
  } catch (const CLI::ParseError &error) {
    return errorf("{}", error.what());
  }
  return layout;
}

} // namespace mgc::tools
