// Words of command lines that the tools print.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace mgc::tools {

// The word as a shell reads it back.
inline std::string quoted(const std::string &word) {
  const auto isPlain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_./,:=+@%^-").find(char(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, isPlain))
    return word;
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

} // namespace mgc::tools
