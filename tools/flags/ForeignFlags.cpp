// See ForeignFlags.h.
#include "tools/flags/ForeignFlags.h"

#include "runtime/base/Problems.h"
#include "tools/flags/ConfigWords.h"
#include "tools/flags/ForeignAnswers.h"
#include "tools/flags/Usage.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::tools {

namespace {

using Words = std::vector<std::string>;

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
  // `place` stands before each problem and note; `hasPositional`: the model, or the plan, is said elsewhere.
  Sorter(const CLI::App &app, const Words &words, Tool tool, const std::string &place = {}, bool hasPositional = false)
      : app_(app), words_(words), tool_(tool), place_(place.empty() ? "" : place + ": "), hasPositional_(hasPositional),
        problems_(place) {}

  Result<SortedFlags> run() {
    while (next_ < words_.size() && words_[next_] != "--")
      take(words_[next_]);
    sorted_.words.insert(sorted_.words.end(), words_.begin() + static_cast<ptrdiff_t>(next_), words_.end());
    if (!hasPositional_)
      moveLastOfList();
    if (!problems_.empty())
      return problems_.status();
    return std::move(sorted_);
  }
  // After run():
  bool hasPositional() const { return !positional_.empty() || next_ + 1 < words_.size(); }
  const Words &positional() const { return positional_; }

private:
  const CLI::App &app_;
  const Words &words_;
  Tool tool_;
  const std::string place_;
  const bool hasPositional_;
  size_t next_ = 0;                  // word
  Words positional_;                 // no values of a flag; not in sorted_.words
  std::optional<size_t> lastOfList_; // index in sorted_.words, of a list of two or more words
  SortedFlags sorted_;
  Problems problems_;

  void take(const std::string &word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    ++next_;
    if (!isFlag(word) || hasFlag(app_, name)) {
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
      if (other != name && (hasFlag(app_, other) || (tool_ == Tool::mgc && frontend::findModelFlag(other)))) {
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
      sorted_.notes.push_back(fmt::format("{}{}: {}", place_, name, known->text));
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
    Words known = longNamesOf(app_);
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
      if (const auto its = hasFlag(app_, other) ? std::nullopt : answerOf(other, ""))
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

// The positional words stand first: behind a list they would be its values.
static SortedFlags joined(const Words &positional, SortedFlags first, SortedFlags second) {
  const auto append = [](auto &all, auto &more) { std::ranges::move(more, std::back_inserter(all)); };
  first.words.insert(first.words.begin(), positional.begin(), positional.end());
  append(first.words, second.words);
  append(first.notes, second.notes);
  append(first.facts, second.facts);
  return first;
}

static Result<SortedFlags> sortWithConfig(const std::string &path, const CLI::App &app, const Words &words, Tool tool) {
  MGC_ASSIGN(entries, readConfig(path, tool == Tool::mgrun ? "mgrun" : "mgc"));
  const bool namesPositional =
      std::ranges::any_of(entries, [&](const ConfigEntry &entry) { return app.get_option_no_throw(entry.key); });
  Sorter typed(app, words, tool, {}, namesPositional);
  const Result<SortedFlags> commandLine = typed.run();
  const Result<ConfigWords> configured = wordsOf(path, entries, app, words, typed.hasPositional());
  MGC_TRY(allOf({commandLine.status(), configured.status()}));
  Sorter filed(app, configured->words, tool, path, true);
  MGC_ASSIGN(file, filed.run());
  Words positional = configured->positional;
  positional.insert(positional.end(), typed.positional().begin(), typed.positional().end());
  SortedFlags sorted = joined(positional, std::move(file), *commandLine);
  sorted.notes.insert(sorted.notes.begin(), configured->notes.begin(), configured->notes.end());
  sorted.config = path, sorted.ofConfig = configured->flags;
  return sorted;
}

Result<SortedFlags> sortFlags(const CLI::App &app, const std::vector<std::string> &words, Tool tool) {
  if (const std::optional<std::string> path = configIn(words))
    return sortWithConfig(*path, app, words, tool);
  Sorter sorter(app, words, tool);
  MGC_ASSIGN(sorted, sorter.run());
  return joined(sorter.positional(), std::move(sorted), {});
}

} // namespace mgc::tools
