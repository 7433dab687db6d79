// See ConfigWords.h.
#include "tools/flags/ConfigWords.h"

#include "model/ModelFlags.h"
#include "runtime/base/Problems.h"
#include "tools/flags/ForeignAnswers.h"

#include <algorithm>
#include <cctype>

namespace mgc::tools {

namespace {

// The options that a command line has.
class GivenFlags {
public:
  GivenFlags(const CLI::App &app, const std::vector<std::string> &words) : app_(app) {
    for (const std::string &word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (word == "--")
        return;
      if (isFlag(word))
        names_.push_back(name);
      if (isFlag(word) && hasFlag(app, name))
        options_.push_back(app.get_option(name.starts_with("--") ? name : name.substr(0, 2)));
    }
  }
  bool has(const std::string &flag) const {
    const CLI::Option *option = app_.get_option_no_throw(flag);
    return std::ranges::find(names_, flag) != names_.end() ||
           (option && std::ranges::find(options_, option) != options_.end());
  }
  // The one with which the flag cannot be; null: there is none.
  const CLI::Option *excluding(const std::string &flag) const {
    const CLI::Option *option = app_.get_option_no_throw(flag);
    const auto excludes = [&](const CLI::Option *given) {
      return option && option->get_excludes().contains(const_cast<CLI::Option *>(given));
    };
    const auto found = std::ranges::find_if(options_, excludes);
    return found == options_.end() ? nullptr : *found;
  }

private:
  const CLI::App &app_;
  std::vector<std::string> names_;
  std::vector<const CLI::Option *> options_;
};

std::string negationOf(const std::string &flag) {
  return flag.starts_with("--no-") ? "--" + flag.substr(5) : "--no-" + flag.substr(2);
}

bool isForeign(const std::string &flag) {
  return frontend::findModelFlag(flag) || answerOf(flag, "") || answerByPrefix(flag);
}

// For "flag = false": the flag that turns it off, or none.
std::vector<std::string> wordsOfFalse(const CLI::App &app, const std::string &flag) {
  if (hasFlag(app, negationOf(flag)))
    return {negationOf(flag)};
  return hasFlag(app, flag) || isForeign(flag) ? std::vector<std::string>() : std::vector{flag + "=false"};
}

bool isSwitch(const CLI::App &app, const std::string &flag) {
  const CLI::Option *option = app.get_option_no_throw(flag);
  return !option || option->get_items_expected_max() == 0;
}

std::vector<std::string> wordsOfFlag(const CLI::App &app, const std::string &flag,
                                     const std::vector<std::string> &values) {
  if (values.size() == 1 && values.front() == "true" && isSwitch(app, flag))
    return {flag};
  if (values.size() == 1 && values.front() == "false" && isSwitch(app, flag))
    return wordsOfFalse(app, flag);
  if (values.size() == 1)
    return {flag + "=" + values.front()};
  std::vector<std::string> words = {flag};
  words.insert(words.end(), values.begin(), values.end());
  return words;
}

void verify(const CLI::App &app, const std::string &flag, const std::vector<std::string> &values, Problems &problems) {
  const CLI::Option *option = app.get_option_no_throw(flag);
  const auto most = option ? std::max(1, option->get_items_expected_max()) : std::numeric_limits<int>::max();
  if (flag == kConfigFlag)
    problems.add("{}: a file does not name another", flag);
  else if (option && !option->get_configurable())
    problems.add("{}: is of the command line alone", flag);
  else if (std::cmp_greater(values.size(), most))
    problems.add("{}: found {} values, expected {}", flag, values.size(), most);
  else if (const auto dashed = std::ranges::find_if(values, isFlag); values.size() > 1 && dashed != values.end())
    problems.add("{}: found '{}' in a list, expected a value that is no flag", flag, *dashed);
}

} // namespace

bool isFlag(const std::string &word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word != "-inf" && word != "-nan";
}

bool hasFlag(const CLI::App &app, const std::string &name) {
  return app.get_option_no_throw(name.starts_with("--") ? name : name.substr(0, 2)) != nullptr;
}

std::optional<std::string> configIn(const std::vector<std::string> &words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == kConfigFlag && i + 1 < words.size() && !isFlag(words[i + 1]))
      return words[i + 1];
    if (words[i].starts_with(std::string(kConfigFlag) + "=") && words[i].size() > kConfigFlag.size() + 1)
      return words[i].substr(kConfigFlag.size() + 1);
  }
  return std::nullopt;
}

Result<ConfigWords> wordsOf(const std::string &path, const std::vector<ConfigEntry> &entries, const CLI::App &app,
                            const std::vector<std::string> &commandLine, bool hasPositional) {
  const GivenFlags given(app, commandLine);
  Problems problems(path);
  ConfigWords all;
  for (const ConfigEntry &entry : entries) {
    if (app.get_option_no_throw(entry.key)) {
      if (!hasPositional)
        all.positional.insert(all.positional.end(), entry.values.begin(), entry.values.end());
      continue;
    }
    const std::string flag = "--" + entry.key;
    verify(app, flag, entry.values, problems);
    if (given.has(flag))
      continue;
    if (const CLI::Option *other = given.excluding(flag)) {
      all.notes.push_back(
          fmt::format("{}: {}: left out, since the command line has {}", path, flag, other->get_name()));
      continue;
    }
    const std::vector<std::string> words = wordsOfFlag(app, flag, entry.values);
    all.words.insert(all.words.end(), words.begin(), words.end());
    if (!words.empty())
      all.flags.push_back(words.front().substr(0, words.front().find('=')));
  }
  MGC_TRY(problems.status());
  return all;
}

} // namespace mgc::tools
