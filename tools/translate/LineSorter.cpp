// See LineSorter.h.
#include "tools/translate/LineSorter.h"

#include "model/ModelFlags.h"
#include "runtime/tokenizers/Tokenizer.h"
#include "tools/flags/ForeignFlags.h"
#include "tools/translate/OptionNames.h"
#include "tools/translate/Rewriting.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

// Options that both tools must have: one makes what the other reads.
constexpr std::array<std::string_view, 2> kOfBoth = {"--rampup-batch-size", "--moe-per-layer-logging"};
bool isOfBoth(std::string_view name) { return std::ranges::find(kOfBoth, name) != kOfBoth.end(); }
constexpr std::string_view kTokenizerType = "--tokenizer-type";

class LineSorter {
public:
  explicit LineSorter(const SortingInputs &inputs) : in_(inputs) {}

  Draft run() {
    for (const LineFlag &flag : in_.line.flags)
      draft_.flags.push_back({flag, FlagGroup::unsupported, "", false});
    for (index_ = 0; index_ < draft_.flags.size(); ++index_)
      sort();
    return std::move(draft_);
  }

private:
  const SortingInputs &in_;
  Draft draft_;
  size_t index_ = 0;

  TranslatedFlag &flag() { return draft_.flags[index_]; }
  void say(FlagGroup group, const std::string &text) { flag().group = group, flag().text = text; }
  void leaveOut(FlagGroup group, const std::string &text) {
    say(group, text);
    flag().isLeftOut = true;
  }

  // The names of a flag that are looked up: as it is written, and with dashes for underscores.
  void sort() {
    for (const std::string &name : spellingsOf(flag().flag.name))
      if (sortAs(name))
        return;
    sortUnknown();
  }

  bool sortAs(const std::string &name) {
    if (name == "--help" || name == "-h")
      return say(FlagGroup::nothing, "prints the help alone"), true;
    if (sortByModel(name) || sortByCompile(name))
      return true;
    const auto answer = answerOf(name, flag().flag.values.empty() ? "" : flag().flag.values.front());
    if (answer && (!answer->row->here.empty() || !answer->row->instead.empty()))
      return sortByRow(*answer), true;
    if (sortByRun(name))
      return true;
    if (answer)
      return sortByRow(*answer), true;
    if (const auto byPrefix = answerByPrefix(name))
      return sortByRow(*byPrefix), true;
    return false;
  }

  void sortUnknown() {
    say(FlagGroup::unsupported, "is no flag of Megatron-LM, nor of another framework that is known here");
    flag().isLeftOut = true;
  }

  bool sortByModel(const std::string &name) {
    if (in_.made) {
      if (const auto why = in_.made->unusable.find(name); why != in_.made->unusable.end())
        return leaveOut(FlagGroup::needsValue, fmt::format("config.json: {}", why->second)), true;
      if (const auto why = in_.made->lacking.find(name); why != in_.made->lacking.end())
        return say(FlagGroup::unsupported, why->second), true;
      if (const auto why = in_.made->idle.find(name); why != in_.made->idle.end())
        return say(FlagGroup::nothing, why->second), true;
      if (const auto place = in_.made->places.find(name); place != in_.made->places.end())
        return say(FlagGroup::otherwise, fmt::format("config.json: {}", place->second)), true;
    }
    const frontend::ModelFlag *fact = frontend::findModelFlag(name);
    if (!fact)
      return false;
    if (fact->isSwitch && !flag().flag.values.empty())
      return leaveOut(FlagGroup::needsValue, fmt::format("takes no value, found '{}'", flag().flag.values.front())),
             true;
    if (!in_.model)
      return say(FlagGroup::otherwise, "config.json"), true;
    if (!fact->isSwitch && flag().flag.values.empty())
      return leaveOut(FlagGroup::needsValue, "config.json: its value is missing"), true;
    compare(*fact, name);
    return true;
  }
  void compare(const frontend::ModelFlag &fact, const std::string &name) {
    const std::string value = fact.isSwitch ? "true" : flag().flag.values.front(), found = fact.valueOf(*in_.model);
    if (in_.made && found == "none")
      say(FlagGroup::nothing, "the model has no such part");
    else if (!frontend::verifyModelFlags(*in_.model, {{name, value}}).isOk())
      leaveOut(FlagGroup::unsupported, fmt::format("the model has {}", found));
    else if (in_.made)
      say(FlagGroup::nothing, "the model is so without it");
    else
      say(FlagGroup::same, found.empty() ? "changes nothing in this model" : "config.json has the same");
  }

  bool sortByCompile(const std::string &name) {
    const std::optional<NamedOption> option = compileOptionNamed(name);
    if (!option)
      return false;
    if (take(kCompile, *option, name) && isOfBoth(name))
      addCopy(kRun, name);
    return true;
  }
  bool sortByRun(const std::string &name) {
    const std::optional<NamedOption> option = runOptionNamed(name);
    if (!option)
      return false;
    if (take(kRun, *option, name) && isOfBoth(name))
      addCopy(kCompile, name);
    return true;
  }
  void addCopy(std::string_view tool, const std::string &name) {
    const std::vector<std::string> words = draft_.options.back().words;
    addOption(tool, name, words);
    flag().text = fmt::format("{} and {}", kCompile, kRun);
  }

  void addOption(std::string_view tool, const std::string &own, const std::vector<std::string> &words,
                 bool isInstead = false) {
    draft_.options.push_back({tool, own, words, index_, isInstead});
  }

  // An option of the same name; whether its values can be taken.
  bool take(std::string_view tool, const NamedOption &option, const std::string &name) {
    std::vector<std::string> words = {name};
    words.insert(words.end(), flag().flag.values.begin(), flag().flag.values.end());
    if (const ValueProblem problem = problemOf(option, flag().flag.values, in_.supported); !problem.text.empty()) {
      leaveOut(problem.isRefused ? FlagGroup::unsupported : FlagGroup::needsValue, problem.text);
      return false;
    }
    say(FlagGroup::same, std::string(tool));
    addOption(tool, option.isSum ? name : option.own, words);
    return true;
  }

  void sortByRow(const ForeignAnswer &answer) {
    const ForeignRow &row = *answer.row;
    say(row.group, answer.text);
    const std::string &pattern = row.here.empty() ? row.instead : row.here;
    if (pattern.empty())
      return;
    const Result<Rewritten> rewritten = rewrite(pattern, flag().flag, in_.line);
    if (!rewritten.isOk())
      return leaveOut(row.group == FlagGroup::otherwise ? FlagGroup::needsValue : row.group,
                      rewritten.status().message());
    if (row.here.starts_with(std::string(rewritten->tool) + " {flag}"))
      flag().group = FlagGroup::same;
    std::vector<std::string> texts;
    for (const std::vector<std::string> &words : rewritten->options) {
      if (const ValueProblem problem = problemIn(rewritten->tool, words); !problem.text.empty())
        return leaveOut(row.group != FlagGroup::otherwise ? row.group
                        : problem.isRefused               ? FlagGroup::unsupported
                                                          : FlagGroup::needsValue,
                        problem.text);
      texts.push_back(fmt::format("{}", fmt::join(words, " ")));
    }
    for (const std::vector<std::string> &words : rewritten->options)
      addOption(rewritten->tool, ownNameIn(rewritten->tool, words.front()), words, row.here.empty());
    if (!row.here.empty())
      flag().text = fmt::format("{} {}", rewritten->tool, fmt::join(texts, " "));
  }

  static std::optional<NamedOption> optionIn(std::string_view tool, const std::string &name) {
    return tool == kCompile ? compileOptionNamed(name) : tool == kRun ? runOptionNamed(name) : std::nullopt;
  }
  static std::string ownNameIn(std::string_view tool, const std::string &name) {
    const std::optional<NamedOption> option = optionIn(tool, name);
    return option && !option->isSum ? option->own : name;
  }
  ValueProblem problemIn(std::string_view tool, const std::vector<std::string> &words) const {
    if (const std::optional<NamedOption> option = optionIn(tool, words.front()))
      return problemOf(*option, {words.begin() + 1, words.end()}, in_.supported);
    std::vector<std::string> types;
    for (const TokenizerType &type : tokenizerTypes())
      types.emplace_back(type.name);
    if (words.front() == kTokenizerType && std::ranges::find(types, words.back()) == types.end())
      return {fmt::format("found '{}', possible: {}", words.back(), fmt::join(types, ", ")), true};
    return {};
  }
};

} // namespace

Draft sortLine(const SortingInputs &inputs) { return LineSorter(inputs).run(); }

} // namespace mgc::tools
