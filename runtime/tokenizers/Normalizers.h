// Normalizers of a tokenizer.json: they change a text before it is split.
#pragma once

#include "runtime/tokenizers/JsonPlace.h"
#include "runtime/tokenizers/TrackedText.h"

#include <memory>

namespace mgc {

class TextNormalizer {
public:
  virtual ~TextNormalizer() = default;
  virtual Status apply(TrackedText &text) const = 0;
};

// Null where the value is null. An error names a type that is not known.
Result<std::unique_ptr<TextNormalizer>> makeNormalizer(const JsonPlace &json);

} // namespace mgc
