// Characters and their properties, as Rust's standard library and its crates see them: tokenizers are written in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mgc::unicode {

// The character at `at` of well-formed UTF-8; `at` moves behind it.
char32_t next(std::string_view text, size_t &at);
// The one that ends before `at`, which moves to its beginning.
char32_t previous(std::string_view text, size_t &at);
inline size_t lengthAt(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
void append(std::string &text, char32_t c);
bool isAscii(std::string_view text);

bool isWhitespace(char32_t c);  // White_Space
bool isWord(char32_t c);        // \w of regular expressions: letters, marks, digits, connectors
bool isPunctuation(char32_t c); // all signs in ASCII, else category P
bool isNumeric(char32_t c);     // category N
bool isNonspacingMark(char32_t c);
bool isMark(char32_t c);    // category M
bool isControl(char32_t c); // category Cc, Cf or Co
void appendLower(std::string &text, char32_t c);

enum class Form { nfc, nfd, nfkc, nfkd };
// Visits the bytes [begin, end) of the text in their order, with what stands for them where that is another.
using NormalizedPart = std::function<void(size_t begin, size_t end, std::optional<std::string_view> other)>;
void normalize(std::string_view text, Form form, const NormalizedPart &visit);

// Where the grapheme cluster that begins at `at` ends.
class Graphemes {
public:
  explicit Graphemes(std::string_view text);
  ~Graphemes();
  Graphemes(const Graphemes &) = delete;
  Graphemes &operator=(const Graphemes &) = delete;
  size_t endAfter(size_t at);

private:
  std::string_view text_;
  void *iterator_ = nullptr; // UBreakIterator
  void *utext_ = nullptr;
};

} // namespace mgc::unicode
