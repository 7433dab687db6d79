// See Rewriting.h.
#include "tools/translate/Rewriting.h"

#include "tools/flags/FlagChecks.h"

#include <charconv>
#include <sstream>

namespace mgc::tools {

namespace {

Result<double> numberOf(const LineFlag &flag) {
  if (flag.values.empty())
    return errorf("its value is missing");
  std::string text = flag.values.front();
  if (const std::string problem = finiteNumber(0)(text); !problem.empty())
    return Status::error(problem);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string textOf(double number) {
  constexpr double kExact = 9e15; // whole numbers of a double
  return number == std::floor(number) && number < kExact ? std::to_string(int64_t(number)) : fmt::format("{}", number);
}

// {value*60} or {value/--seq-length}; `what` is behind "value".
Result<std::string> computed(std::string_view what, const LineFlag &flag, const MegatronLine &line) {
  MGC_ASSIGN(value, numberOf(flag));
  if (what.starts_with('*')) {
    double factor = 1;
    std::from_chars(what.data() + 1, what.data() + what.size(), factor);
    return textOf(value * factor);
  }
  const std::string other(what.substr(1));
  const LineFlag *divisor = line.last({other});
  if (!divisor)
    return errorf("the line has no {}", other);
  MGC_ASSIGN(by, numberOf(*divisor).at(other));
  if (by < 1)
    return errorf("{} is {}", other, by);
  return textOf(std::floor(value / by));
}

// Appends what a word of the pattern stands for.
Status append(const std::string &word, const LineFlag &flag, const MegatronLine &line,
              std::vector<std::string> &words) {
  if (word == "{flag}") {
    words.push_back(flag.name);
  } else if (word == "{value}") {
    if (flag.values.empty())
      return errorf("its value is missing");
    words.insert(words.end(), flag.values.begin(), flag.values.end());
  } else if (word.starts_with("{value")) {
    constexpr size_t kBegin = std::string_view("{value").size();
    MGC_ASSIGN(text, computed(std::string_view(word).substr(kBegin, word.size() - kBegin - 1), flag, line));
    words.push_back(text);
  } else {
    words.push_back(word);
  }
  return Status::ok();
}

} // namespace

Result<Rewritten> rewrite(const std::string &pattern, const LineFlag &flag, const MegatronLine &line) {
  Rewritten result;
  for (const std::string_view tool : {kCompile, kRun, kPreprocess})
    if (pattern.starts_with(tool))
      result.tool = tool;
  std::istringstream rest(pattern.substr(result.tool.size()));
  for (std::string word; rest >> word;) {
    if (word.starts_with("--") || word == "{flag}")
      result.options.emplace_back();
    MGC_TRY(append(word, flag, line, result.options.back()));
  }
  return result;
}

} // namespace mgc::tools
