// Checks of flag values: what was found, what is expected. All refuse the empty text.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <limits>

namespace mgc::tools {

inline CLI::Validator notEmpty() {
  return CLI::Validator([](std::string &text) { return text.empty() ? "the value is empty" : std::string(); },
                        "");
}

inline CLI::Validator wholeNumber(int64_t least = std::numeric_limits<int64_t>::min(),
                                  int64_t most = std::numeric_limits<int64_t>::max()) {
  auto check = [least, most](std::string &text) -> std::string {
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
    double value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && std::isfinite(value) && value >= least && value <= most)
      return "";
    return fmt::format("found '{}', expected a finite number{}{}", text,
                       least > std::numeric_limits<double>::lowest() ? fmt::format(", at least {}", least)
                                                                     : "",
                       most < std::numeric_limits<double>::max() ? fmt::format(", at most {}", most) : "");
  };
  return CLI::Validator(check, "");
}

} // namespace mgc::tools
