// See Tokenizer.h.
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/tokenizers/HuggingFaceTokenizer.h"
#include "runtime/tokenizers/OtherTokenizers.h"

#include <algorithm>

namespace mgc {

namespace {

using Opened = Result<std::unique_ptr<Tokenizer>>;

struct TokenizerRow {
  TokenizerType type;
  Opened (*open)(const TokenizerFiles &files);
  bool hasFile = true;
};
const TokenizerRow kTokenizers[] = {
    {{"HuggingFaceTokenizer", "a tokenizer.json, or its folder"},
     [](const TokenizerFiles &files) { return openHuggingFaceTokenizer(files.model); }},
    {{"SentencePieceTokenizer", "a .model of sentencepiece"},
     [](const TokenizerFiles &files) { return openSentencePiece(files.model); }},
    {{"ByteTokenizer", "a token per byte, and 256 at the end of a document"},
     [](const TokenizerFiles &) -> Opened { return makeByteTokenizer(); },
     false},
    {{"NullTokenizer", "texts are token ids; --vocab-size - 1 ends a document"},
     [](const TokenizerFiles &files) { return makeNullTokenizer(files.vocabularySize); },
     false},
};

} // namespace

std::vector<TokenizerType> tokenizerTypes() {
  std::vector<TokenizerType> types;
  for (const TokenizerRow &row : kTokenizers)
    types.push_back(row.type);
  return types;
}

Opened openTokenizer(const TokenizerFiles &files) {
  std::string type = files.type;
  if (type.empty())
    type = files.model.ends_with(".model") ? "SentencePieceTokenizer" : "HuggingFaceTokenizer";
  const auto *row = std::ranges::find(kTokenizers, type, [](const TokenizerRow &r) { return r.type.name; });
  if (row == std::end(kTokenizers)) {
    std::string names;
    for (const TokenizerRow &each : kTokenizers)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", each.type.name);
    return errorf("--tokenizer-type {}: is not known, expected one of {}", type, names);
  }
  if (row->hasFile && files.model.empty())
    return errorf("--tokenizer-type {}: needs --tokenizer-model: {}", type, row->type.what);
  return row->open(files);
}

} // namespace mgc
