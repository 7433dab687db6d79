// A regular expression of a tokenizer.json: Oniguruma's, which Hugging Face's tokenizers uses, too.
#pragma once

#include "runtime/base/Status.h"

#include <functional>
#include <memory>
#include <string_view>

namespace mgc {

class OnigPattern {
public:
  static Result<OnigPattern> compile(std::string_view expression);
  // An expression that matches this text alone.
  static std::string quoted(std::string_view text);

  using Visit = std::function<void(size_t begin, size_t end)>;
  // Its matches in `text` (UTF-8), one behind the other. Several threads may search.
  void forEach(std::string_view text, const Visit &visit) const;

private:
  explicit OnigPattern(std::shared_ptr<void> pattern) : pattern_(std::move(pattern)) {}
  std::shared_ptr<void> pattern_; // regex_t
};

} // namespace mgc
