// See Unicode.h.
#include "runtime/tokenizers/Unicode.h"

#include <algorithm>
#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>

namespace mgc::unicode {

char32_t next(std::string_view text, size_t &at) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  UChar32 c;
  U8_NEXT_UNSAFE(bytes, at, c);
  return static_cast<char32_t>(c);
}

char32_t previous(std::string_view text, size_t &at) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  UChar32 c;
  U8_PREV_UNSAFE(bytes, at, c);
  return static_cast<char32_t>(c);
}

void append(std::string &text, char32_t c) {
  char bytes[4];
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, static_cast<UChar32>(c));
  text.append(bytes, static_cast<size_t>(length));
}

bool isAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

static bool hasCategory(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }

bool isWhitespace(char32_t c) {
  return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r')
                  : u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}

bool isWord(char32_t c) {
  return hasCategory(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL);
}

bool isPunctuation(char32_t c) {
  if (c < 0x80)
    return c > ' ' && c < 0x7F && !u_isalnum(static_cast<UChar32>(c));
  return hasCategory(c, U_GC_P_MASK);
}

bool isNumeric(char32_t c) { return hasCategory(c, U_GC_N_MASK); }
bool isNonspacingMark(char32_t c) { return hasCategory(c, U_GC_MN_MASK); }
bool isMark(char32_t c) { return hasCategory(c, U_GC_M_MASK); }
bool isControl(char32_t c) { return hasCategory(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK); }

void appendLower(std::string &text, char32_t c) {
  constexpr char32_t kDottedI = 0x130; // the one capital whose small form is two characters
  if (c == kDottedI)
    text += "i\u0307";
  else
    append(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

static const icu::Normalizer2 *normalizerOf(Form form, UErrorCode &error) {
  switch (form) {
  case Form::nfc:
    return icu::Normalizer2::getNFCInstance(error);
  case Form::nfd:
    return icu::Normalizer2::getNFDInstance(error);
  case Form::nfkc:
    return icu::Normalizer2::getNFKCInstance(error);
  case Form::nfkd:
    return icu::Normalizer2::getNFKDInstance(error);
  }
  return nullptr;
}

void normalize(std::string_view text, Form form, const NormalizedPart &visit) {
  UErrorCode error = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  icu::Edits edits;
  const icu::Normalizer2 *normalizer = normalizerOf(form, error);
  normalizer->normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, &edits, error);
  for (auto part = edits.getFineIterator(); part.next(error);) {
    const auto begin = static_cast<size_t>(part.sourceIndex()), to = static_cast<size_t>(part.destinationIndex());
    const std::string_view other = std::string_view(out).substr(to, static_cast<size_t>(part.newLength()));
    visit(begin, begin + static_cast<size_t>(part.oldLength()), part.hasChange() ? std::optional(other) : std::nullopt);
  }
}

Graphemes::Graphemes(std::string_view text) : text_(text) {
  UErrorCode error = U_ZERO_ERROR;
  auto *utext = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  auto *iterator = ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &error);
  ubrk_setUText(iterator, utext, &error);
  iterator_ = iterator, utext_ = utext;
}

Graphemes::~Graphemes() {
  ubrk_close(static_cast<UBreakIterator *>(iterator_));
  utext_close(static_cast<UText *>(utext_));
}

size_t Graphemes::endAfter(size_t at) {
  const int32_t end = ubrk_following(static_cast<UBreakIterator *>(iterator_), static_cast<int32_t>(at));
  return end == UBRK_DONE ? text_.size() : static_cast<size_t>(end);
}

} // namespace mgc::unicode
