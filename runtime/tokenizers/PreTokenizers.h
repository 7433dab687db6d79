// Pre-tokenizers of a tokenizer.json: they cut a text into the words that a model tokenizes one by one.
#pragma once

#include "runtime/tokenizers/JsonPlace.h"
#include "runtime/tokenizers/TrackedText.h"

#include <functional>
#include <memory>

namespace mgc {

// A part of a text. `isFirst`: it begins where the whole text does.
struct TextPiece {
  std::string_view text;
  bool isFirst = false;
  const TextRange *origins = nullptr; // one for each byte; null: not tracked
  TextPiece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), isFirst && begin == 0, origins ? origins + begin : nullptr};
  }
};
using PieceSink = std::function<Status(const TextPiece &piece)>;

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  // Pieces are valid during the call of the sink; none is empty. An error of the sink ends it.
  virtual Status split(const TextPiece &piece, const PieceSink &sink) const = 0;
  // Whether the model's tokens are bytes, which its vocabulary writes as characters of their own (ByteLevel.h).
  virtual bool givesBytes() const { return false; }
};

// Null where the value is null. An error names a type that is not known.
Result<std::unique_ptr<PreTokenizer>> makePreTokenizer(const JsonPlace &json);

} // namespace mgc
