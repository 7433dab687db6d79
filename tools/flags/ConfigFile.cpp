// See ConfigFile.h. CLI11 reads the format, but drops what it does not understand and ends a text at '#': ConfigLines finds the former
// and hides the latter.
#include "tools/flags/ConfigFile.h"

#include "runtime/base/File.h"
#include "runtime/base/Utf8.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/ranges.h>
#include <set>
#include <sstream>

namespace mgc::tools {

namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr const char *kTools[] = {"mgc", "mgrun"};
constexpr char kHash = '\1', kBackslash = '\2'; // in a text, in place of characters that CLI11 gives a meaning

// ConfigLines: the text without comments, a line for each key, and in arrays without blanks.
class ConfigLines {
public:
  ConfigLines(const std::string &path, std::string_view text) : path_(path), text_(text) {}

  Result<std::string> read() {
    for (const char c : text_) {
      if (!(quote_ ? readInText(c) : readOutside(c)))
        return errorf("{}: line {}: {}", path_, line_, problem_);
      line_ += c == '\n';
    }
    if (quote_)
      return errorf("{}: line {}: a text begins that does not end", path_, begin_);
    if (depth_ > 0)
      return errorf("{}: line {}: an array begins that does not end, expected ]", path_, begin_);
    if (!endLine())
      return errorf("{}: line {}: {}", path_, line_, problem_);
    return lines_;
  }

private:
  const std::string &path_;
  const std::string_view text_;
  std::string lines_, current_, section_, problem_;
  std::set<std::string> keys_;
  char quote_ = 0; // around the text that is read; 0: none is
  bool isComment_ = false;
  int64_t line_ = 1, depth_ = 0, begin_ = 1;

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  bool readInText(char c) {
    if (c == '\n')
      return refuse("a text begins that does not end in its line");
    if (c == '\\' && quote_ == '"')
      return refuse("'\\' is not read in a text between \"; write it between '");
    if (c == quote_)
      quote_ = 0;
    current_ += c == '#' ? kHash : c == '\\' ? kBackslash : c;
    return true;
  }

  bool readOutside(char c) {
    if (c == '\n') {
      isComment_ = false;
      return depth_ > 0 || endLine();
    }
    isComment_ |= c == '#';
    if (isComment_)
      return true;
    if (c == '{' || c == '}')
      return refuse("tables in braces are not read; expected KEY = VALUE, or a section [mgrun]");
    if (c == '"' || c == '\'')
      quote_ = c, begin_ = line_;
    if (c == '[' && depth_++ == 0)
      begin_ = line_;
    if (c == ']' && depth_-- == 0)
      return refuse("']' ends no array");
    if (depth_ > 1)
      return refuse("found [ in an array, expected values: [1, 2]");
    if (depth_ == 0 || !std::isspace(static_cast<unsigned char>(c)))
      current_ += c;
    return true;
  }

  static bool isKey(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    });
  }

  bool endLine() {
    const std::string line = CLI::detail::trim(current_);
    current_.clear();
    if (line.empty())
      return true;
    if (line.front() == '[') {
      section_ = line.substr(1, line.size() - 2);
      if (line.back() != ']' || !isKey(section_))
        return refuse(fmt::format("found {}, expected a section: [mgc] or [mgrun]", line));
    } else {
      const size_t equals = line.find('=');
      const std::string key = CLI::detail::trim_copy(line.substr(0, equals));
      if (equals == line.npos || !isKey(key))
        return refuse(fmt::format("found '{}', expected KEY = VALUE, where KEY is the name of a flag without dashes",
                                  line.substr(0, 80)));
      if (equals + 1 == line.size())
        return refuse(fmt::format("{}: its value is missing", key));
      if (!keys_.insert(section_ + "\n" + key).second)
        return refuse(fmt::format("{}: is there twice", key));
    }
    lines_ += line + "\n";
    return true;
  }
};

std::string shown(std::string text) {
  std::ranges::replace(text, kHash, '#');
  std::ranges::replace(text, kBackslash, '\\');
  return text;
}

bool isControl(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

Result<std::string> readText(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMostBytes));
  std::erase(text, '\r');
  if (firstInvalidUtf8(text) || std::ranges::any_of(text, [](char c) { return c != '\n' && isControl(c); }))
    return errorf("{}: is no text, expected lines KEY = VALUE", path);
  return text;
}

bool isNumber(const std::string &text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && std::isfinite(value);
}

// Empty: the format has no such text.
std::string written(const std::string &value) {
  if (value == "true" || value == "false" || isNumber(value))
    return value;
  if (std::ranges::any_of(value, isControl))
    return "";
  if (value.find('\'') == value.npos)
    return "'" + value + "'";
  return value.find_first_of("\"\\") == value.npos ? "\"" + value + "\"" : "";
}

} // namespace

Result<std::vector<ConfigEntry>> readConfig(const std::string &path, const std::string &tool) {
  MGC_ASSIGN(text, readText(path).at(std::string(kConfigFlag)));
  MGC_ASSIGN(lines, ConfigLines(path, text).read().at(std::string(kConfigFlag)));
  std::istringstream stream(lines);
  std::vector<ConfigEntry> entries;
  for (CLI::ConfigItem &item : CLI::ConfigTOML().from_config(stream)) {
    const bool isOfTool = !item.parents.empty() && std::ranges::find(kTools, item.parents.front()) != std::end(kTools);
    if (item.name == "++" || item.name == "--" || (isOfTool && item.parents.front() != tool))
      continue;
    std::vector<std::string> names(item.parents.begin() + (isOfTool ? 1 : 0), item.parents.end());
    names.push_back(item.name);
    std::ranges::transform(item.inputs, item.inputs.begin(), shown);
    entries.push_back({fmt::format("{}", fmt::join(names, ".")), std::move(item.inputs)});
  }
  return entries;
}

std::string configText(const std::vector<ConfigEntry> &entries) {
  std::string text;
  for (const ConfigEntry &entry : entries) {
    std::vector<std::string> values;
    for (const std::string &value : entry.values)
      values.push_back(written(value));
    if (std::ranges::find(values, "") != values.end())
      text += fmt::format("# {} is left out: no value here can be written like that one\n", entry.key);
    else if (values.size() == 1)
      text += fmt::format("{} = {}\n", entry.key, values.front());
    else
      text += fmt::format("{} = [{}]\n", entry.key, fmt::join(values, ", "));
  }
  return text;
}

} // namespace mgc::tools
