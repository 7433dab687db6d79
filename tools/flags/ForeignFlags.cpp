// See ForeignFlags.h.
#include "tools/flags/ForeignFlags.h"

#include "runtime/base/Problems.h"
#include "tools/flags/ForeignAnswers.h"
#include "tools/process/Process.h"

#include <algorithm>
#include <cctype>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::tools {

namespace {

using Words = std::vector<std::string>;

// "-1", "-", "-inf" and "-nan" are values.
bool isFlag(const std::string &word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word != "-inf" && word != "-nan";
}

bool has(const CLI::App &app, const std::string &name) {
  if (name.starts_with("--"))
    return app.get_option_no_throw(name) != nullptr;
  return app.get_option_no_throw(name.substr(0, 2)) != nullptr; // -oPLAN
}

Words namesOf(const CLI::App &app) {
  Words names;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  for (const CLI::App *group : app.get_subcommands([](const CLI::App *one) { return one->get_name().empty(); }))
    for (std::string &name : namesOf(*group))
      names.push_back(std::move(name));
  return names;
}

bool isOf(const std::string &tool, const std::string &flag) {
  const Words &flags = flagsOfTool(tool);
  return std::ranges::find(flags, flag) != flags.end();
}

int64_t editDistance(std::string_view a, std::string_view b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

class Sorter {
public:
  Sorter(const CLI::App &app, const Words &words, Tool tool) : app_(app), words_(words), tool_(tool) {}

  Result<SortedFlags> run() {
    while (next_ < words_.size() && words_[next_] != "--")
      take(words_[next_]);
    sorted_.words.insert(sorted_.words.end(), words_.begin() + static_cast<ptrdiff_t>(next_), words_.end());
    moveLastOfList();
    sorted_.words.insert(sorted_.words.begin(), positional_.begin(), positional_.end());
    if (!problems_.empty())
      return problems_.status();
    return std::move(sorted_);
  }

private:
  const CLI::App &app_;
  const Words &words_;
  Tool tool_;
  size_t next_ = 0;                  // word
  Words positional_;                 // no values of a flag
  std::optional<size_t> lastOfList_; // index in sorted_.words, of a list of two or more words
  SortedFlags sorted_;
  Problems problems_;

  void take(const std::string &word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    ++next_;
    if (!isFlag(word) || has(app_, name)) {
      if (!isFlag(word)) {
        positional_.push_back(word);
        return;
      }
      sorted_.words.push_back(word);
      takeValues(name, equals == word.npos ? std::nullopt : std::optional(word.substr(equals + 1)));
      return;
    }
    const bool isJoined = equals != word.npos, isFollowed = next_ < words_.size() && !isFlag(words_[next_]);
    const std::string value = isJoined ? word.substr(equals + 1) : isFollowed ? words_[next_] : "";
    const size_t values = answer(name, value, isJoined);
    for (size_t i = isJoined ? 1 : 0; i < values && next_ < words_.size() && !isFlag(words_[next_]); ++i)
      ++next_;
    while (next_ < words_.size() && !isFlag(words_[next_]))
      positional_.push_back(words_[next_++]);
  }

  // `joined`: the value of --tp=2.
  void takeValues(const std::string &name, const std::optional<std::string> &joined) {
    const bool isShort = !name.starts_with("--");
    const CLI::Option &option = *app_.get_option(isShort ? name.substr(0, 2) : name);
    const int most = option.get_items_expected_max();
    const bool hasOne = joined ? !joined->empty() : isShort && name.size() > 2; // -oPLAN
    int taken = hasOne ? 1 : 0;
    for (; !joined && taken < most && next_ < words_.size() && !isFlag(words_[next_]); ++taken)
      sorted_.words.push_back(words_[next_++]);
    if (option.get_items_expected_min() > 0 && taken == 0)
      problems_.add("{}: its value is missing", name);
    if (most > 1 && taken > 1)
      lastOfList_ = sorted_.words.size() - 1;
  }

  // "--list a b model": where nothing else can be the model, it is the list's last word.
  void moveLastOfList() {
    if (!positional_.empty() || !lastOfList_)
      return;
    const auto last = sorted_.words.begin() + static_cast<ptrdiff_t>(*lastOfList_);
    positional_.push_back(*last);
    sorted_.words.erase(last);
  }

  // How many values are the flag's, at most.
  size_t answer(const std::string &name, const std::string &value, bool isJoined) {
    for (const std::string &other : spellingsOf(name))
      if (other != name && (has(app_, other) || (tool_ == Tool::mgc && frontend::findModelFlag(other)))) {
        problems_.add("{}: is spelled {} here", name, other);
        return kAll;
      }
    if (const frontend::ModelFlag *fact = frontend::findModelFlag(name)) {
      if (tool_ != Tool::mgc)
        problems_.add("{}: comes from config.json ({}), when mgc compiles the plan", name, fact->key());
      else if (fact->isSwitch && isJoined)
        problems_.add("{}={}: takes no value; leave the flag out where it is not so", name, value);
      else if (!fact->isSwitch && value.empty())
        problems_.add("{}: its value is missing", name);
      else
        sorted_.facts.push_back({name, fact->isSwitch ? "true" : value});
      return fact->isSwitch ? 0 : 1;
    }
    auto known = answerOf(name, value);
    if (!known && !isOfOtherTool(name))
      known = answerByPrefix(name);
    if (known) {
      if (!known->goesOn) {
        problems_.add("{}: {}", name, known->text);
        return kAll;
      }
      if (isJoined && known->values == 0)
        problems_.add("{}={}: takes no value; leave the flag out where it is not so", name, value);
      sorted_.notes.push_back(fmt::format("{}: {}", name, known->text));
      return known->values;
    }
    refuse(name);
    return kAll;
  }

  bool isOfOtherTool(const std::string &name) const {
    const char *other = tool_ == Tool::mgrun ? "mgc compile" : "mgrun";
    return std::ranges::any_of(spellingsOf(name), [&](const std::string &flag) { return isOf(other, flag); });
  }

  // kAll: every word up to the next flag; on a line that is refused it does not matter which are values.
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  void refuse(const std::string &name) {
    if (isOfOtherTool(name))
      return tool_ == Tool::mgrun
                 ? problems_.add("{}: belongs to mgc compile: the layout is a fact of the plan", name)
                 : problems_.add("{}: belongs to mgrun: mgrun PLAN {}", name, spellingsOf(name).back());
    Words known = namesOf(app_);
    for (const Framework &framework : frameworks())
      for (const ForeignRow &row : framework.rows)
        for (const std::string &entry : row.flags)
          known.emplace_back(nameIn(entry));
    for (const frontend::ModelFlag &flag : frontend::modelFlags())
      known.push_back(flag.flag);
    const Words near = nearestNames(spellingsOf(name).back(), known);
    problems_.add("{}: there is no such flag{}", name,
                  near.empty() ? "; --help lists all" : fmt::format("; near: {}", fmt::join(near, ", ")));
    for (const std::string &other : near)
      if (const auto its = has(app_, other) ? std::nullopt : answerOf(other, ""))
        problems_.hint("{}: {}", other, its->text);
  }
};

} // namespace

std::vector<std::string> nearestNames(const std::string &name, const std::vector<std::string> &known) {
  const auto bare = [](std::string_view flag) {
    return flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  };
  std::vector<std::string> nearest;
  int64_t least = std::max<int64_t>(1, std::ssize(name) / 3);
  for (const std::string &one : known) {
    const int64_t distance = editDistance(bare(name), bare(one));
    if (distance > least)
      continue;
    if (distance < least)
      nearest.clear();
    least = distance;
    if (std::ranges::find(nearest, one) == nearest.end())
      nearest.push_back(one);
  }
  return nearest;
}

Result<SortedFlags> sortFlags(const CLI::App &app, const std::vector<std::string> &words, Tool tool) {
  return Sorter(app, words, tool).run();
}

int leaveWith(const CLI::App &app, const CLI::ParseError &end) {
  if (dynamic_cast<const CLI::ExtrasError *>(&end)) {
    const Words words = app.remaining(true);
    say(stderr, "{}: not expected: {}\n", app.get_name(), fmt::join(words, " "));
    for (const std::string &word : words)
      if (const std::string flag = word.substr(0, word.find('=')); isOf("mgc compile", flag))
        say(stderr, "  {} belongs to mgc compile\n", flag);
    say(stderr, "Run with --help for what is.\n");
    return 2;
  }
  if (app.exit(end) != 0)
    return 2;
  const Status printed = checkOutput();
  if (printed.isOk())
    return 0;
  say(stderr, "{}: {}\n", app.get_name(), printed.message());
  return 1;
}

} // namespace mgc::tools
