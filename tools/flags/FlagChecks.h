// Checks of flag values: what was found, what is expected. All refuse the empty text. Those of numbers are for
// Option::transform: they leave out the underscores of 1_000.
#pragma once

#include "runtime/base/NumberText.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <utility>

namespace mgc::tools {

inline CLI::Validator notEmpty() {
  return CLI::Validator([](std::string &text) { return text.empty() ? "the value is empty" : std::string(); }, "");
}

inline CLI::Validator wholeNumber(int64_t least = std::numeric_limits<int64_t>::min(),
                                  int64_t most = std::numeric_limits<int64_t>::max()) {
  auto check = [least, most](std::string &text) -> std::string {
    text = plainNumber(text);
    int64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most)
      return "";
    return fmt::format("found '{}', expected a whole number{}{}", text,
                       least > std::numeric_limits<int64_t>::min() ? fmt::format(", at least {}", least) : "",
                       most < std::numeric_limits<int64_t>::max() || error == std::errc::result_out_of_range
                           ? fmt::format(", at most {}", most)
                           : "");
  };
  return CLI::Validator(check, "");
}

inline CLI::Validator finiteNumber(double least = std::numeric_limits<double>::lowest(),
                                   double most = std::numeric_limits<double>::max()) {
  auto check = [least, most](std::string &text) -> std::string {
    text = plainNumber(text);
    double value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && std::isfinite(value) && value >= least && value <= most)
      return "";
    return fmt::format("found '{}', expected a finite number{}{}", text,
                       least > std::numeric_limits<double>::lowest() ? fmt::format(", at least {}", least) : "",
                       most < std::numeric_limits<double>::max() ? fmt::format(", at most {}", most) : "");
  };
  return CLI::Validator(check, "");
}

// Parts without the blanks around them.
inline std::vector<std::string> splitAtCommas(std::string_view text) {
  const auto trimmed = [](std::string_view part) {
    const size_t begin = std::min(part.find_first_not_of(' '), part.size());
    return std::string(part.substr(begin, part.find_last_not_of(' ') + 1 - begin));
  };
  std::vector<std::string> parts;
  for (size_t end; (end = text.find(',')) != text.npos; text.remove_prefix(end + 1))
    parts.push_back(trimmed(text.substr(0, end)));
  parts.push_back(trimmed(text));
  return parts;
}

template <typename T> T listValue(const std::string &text) {
  if constexpr (std::is_same_v<T, std::string>)
    return text;
  else
    return std::stoll(text);
}

// "a b" and "a,b": values of a list, up to `most`, each of which is checked. An empty one is refused: CLI11's own delimiter drops
// it, and takes the flag behind it where no other is left.
template <typename T>
CLI::Option *addList(CLI::App &app, const std::string &names, std::function<void(std::vector<T>)> set,
                     const std::string &help, const CLI::Validator &check, int most = std::numeric_limits<int>::max()) {
  const auto read = [=](const std::vector<std::string> &arguments) {
    std::vector<T> values;
    for (const std::string &argument : arguments)
      for (std::string text : splitAtCommas(argument)) {
        std::string problem = text.empty() ? fmt::format("'{}' has an empty value", argument) : check(text);
        if (problem.empty() && std::cmp_equal(values.size(), most))
          problem = fmt::format("found more than {} values", most);
        if (!problem.empty())
          throw CLI::ValidationError(names.substr(0, names.find(',')), problem);
        values.push_back(listValue<T>(text));
      }
    set(std::move(values));
  };
  return app.add_option_function<std::vector<std::string>>(names, read, help)
      ->type_size(1)
      ->expected(1, std::min(most, int(CLI::detail::expected_max_vector_size)));
}

} // namespace mgc::tools
