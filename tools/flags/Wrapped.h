// Paragraphs of the pages that the tools make.
#pragma once

#include <string>
#include <string_view>

namespace mgc::tools {

// In lines of 120 columns, those after the first indented.
inline std::string wrapped(std::string_view paragraph) {
  constexpr size_t kColumns = 120;
  std::string text, line;
  while (!paragraph.empty()) {
    const std::string_view word = paragraph.substr(0, paragraph.find(' '));
    paragraph.remove_prefix(std::min(paragraph.size(), word.size() + 1));
    if (line.size() + 1 + word.size() > kColumns)
      text += line + "\n", line = " ";
    line += line.empty() ? std::string(word) : " " + std::string(word);
  }
  return text + line + "\n";
}

} // namespace mgc::tools
