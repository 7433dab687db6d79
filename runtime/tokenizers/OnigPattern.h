// A regular expression of a tokenizer.json: Oniguruma's, which Hugging Face's tokenizers uses, too.
#pragma once

#include "runtime/base/Status.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mgc {

class OnigPattern {
public:
  // `where`: the expression's place, "tokenizer.json.pre_tokenizer", which begins messages about it.
  static Result<OnigPattern> compile(std::string expression, std::string where);
  // An expression that matches this text alone.
  static std::string quoted(std::string_view text);

  using Visit = std::function<Status(size_t begin, size_t end)>;
  // Its matches in `text` (UTF-8), one behind the other, up to the first error of `visit`. A search that Oniguruma gives up,
  // since it needs more steps than its limit, is an error, too. Several threads may search.
  Status forEach(std::string_view text, const Visit &visit) const;

private:
  OnigPattern(std::string expression, std::string where, std::shared_ptr<void> pattern)
      : expression_(std::move(expression)), where_(std::move(where)), pattern_(std::move(pattern)) {}
  Status searchError(std::string_view text, size_t from, int code) const;
  std::string expression_, where_;
  std::shared_ptr<void> pattern_; // regex_t
};

} // namespace mgc
