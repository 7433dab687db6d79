// See Sentences.h.
#include "runtime/tokenizers/Sentences.h"

#include "runtime/tokenizers/Unicode.h"

#include <memory>
#include <unicode/ubrk.h>
#include <unicode/utext.h>

namespace mgc {

static std::string_view withoutSpace(std::string_view text) {
  for (size_t at = 0; at < text.size() && unicode::isWhitespace(unicode::next(text, at)); at = 0)
    text.remove_prefix(at);
  for (size_t at = text.size(); at > 0 && unicode::isWhitespace(unicode::previous(text, at)); at = text.size())
    text = text.substr(0, at);
  return text;
}

std::vector<std::string_view> sentencesOf(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<UText, UText *(*)(UText *)> source(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error), utext_close);
  const std::unique_ptr<UBreakIterator, void (*)(UBreakIterator *)> breaks(
      ubrk_open(UBRK_SENTENCE, "", nullptr, 0, &error), ubrk_close);
  ubrk_setUText(breaks.get(), source.get(), &error);
  std::vector<std::string_view> sentences;
  size_t begin = 0;
  for (int32_t end = ubrk_next(breaks.get()); end != UBRK_DONE; end = ubrk_next(breaks.get())) {
    const auto sentence = withoutSpace(text.substr(begin, static_cast<size_t>(end) - begin));
    if (!sentence.empty())
      sentences.push_back(sentence);
    begin = static_cast<size_t>(end);
  }
  return sentences;
}

} // namespace mgc
