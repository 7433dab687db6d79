// Tokenizers that are no tokenizer.json.
#pragma once

#include "runtime/tokenizers/Tokenizer.h"

namespace mgc {

// A .model of sentencepiece.
Result<std::unique_ptr<Tokenizer>> openSentencePiece(const std::string &path);
// A token per byte, 0 to 255, and 256 at the end of a text.
std::unique_ptr<Tokenizer> makeByteTokenizer();
// A text of ids, separated by spaces; the last of the vocabulary ends a text.
Result<std::unique_ptr<Tokenizer>> makeNullTokenizer(int64_t vocabulary);

} // namespace mgc
