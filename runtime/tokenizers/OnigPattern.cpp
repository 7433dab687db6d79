// See OnigPattern.h.
#include "runtime/tokenizers/OnigPattern.h"

#include "runtime/base/Json.h"
#include "runtime/tokenizers/Unicode.h"

#include <mutex>
#include <oniguruma.h>

namespace mgc {

static const OnigUChar *bytesOf(std::string_view text) { return reinterpret_cast<const OnigUChar *>(text.data()); }

// `info` null: what is known of the code alone.
static std::string messageOf(int code, OnigErrorInfo *info) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(message, code, info);
  return {reinterpret_cast<const char *>(message), static_cast<size_t>(length)};
}

Result<OnigPattern> OnigPattern::compile(std::string expression, std::string where) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
  });
  regex_t *pattern = nullptr;
  OnigErrorInfo info;
  const int code = onig_new(&pattern, bytesOf(expression), bytesOf(expression) + expression.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL)
    return errorf("{}: the regular expression {} cannot be read: {}", where, expression, messageOf(code, &info));
  return OnigPattern(std::move(expression), std::move(where),
                     std::shared_ptr<void>(pattern, [](void *p) { onig_free(static_cast<regex_t *>(p)); }));
}

std::string OnigPattern::quoted(std::string_view text) {
  std::string expression;
  for (const char c : text)
    (std::string_view("\\.+*?()|[]{}^$#&-~").find(c) == std::string_view::npos ? expression : expression += '\\') += c;
  return expression;
}

Status OnigPattern::searchError(std::string_view text, size_t from, int code) const {
  return errorf("{}: the regular expression {} cannot be searched in a text of {} bytes, from byte {} (\"{}\") on: {}; "
                "expected a text that needs fewer steps: this one may be cut into several, or left out",
                where_, printable(expression_), text.size(), from, printable(text.substr(from)),
                messageOf(code, nullptr));
}

// An empty match directly behind another match is none.
Status OnigPattern::forEach(std::string_view text, const Visit &visit) const {
  auto *pattern = static_cast<regex_t *>(pattern_.get());
  const OnigUChar *begin = bytesOf(text), *end = begin + text.size();
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion *)> region(onig_region_new(),
                                                                   [](OnigRegion *r) { onig_region_free(r, 1); });
  size_t from = 0, lastEnd = std::string_view::npos;
  while (from <= text.size()) {
    const int found = onig_search(pattern, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH)
      break;
    if (found < 0)
      return searchError(text, from, found);
    const auto first = static_cast<size_t>(region->beg[0]), last = static_cast<size_t>(region->end[0]);
    if (first == last && lastEnd == last) {
      from += from < text.size() ? unicode::lengthAt(text, from) : 1;
      continue;
    }
    from = lastEnd = last;
    MGC_TRY(visit(first, last));
  }
  return Status::ok();
}

} // namespace mgc
