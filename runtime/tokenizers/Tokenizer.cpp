// See Tokenizer.h.
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/tokenizers/HuggingFaceTokenizer.h"
#include "runtime/tokenizers/OtherTokenizers.h"

#include <algorithm>
#include <filesystem>

namespace mgc {

namespace {

using Opened = Result<std::unique_ptr<Tokenizer>>;

struct TokenizerRow {
  TokenizerType type;
  Opened (*open)(const TokenizerFiles &files);
  bool hasFile = true;
};

Opened openGpt2Files(const TokenizerFiles &files) {
  const std::filesystem::path folder = files.model;
  const auto pathOf = [&](const std::string &given, const char *name) {
    return given.empty() ? (folder / name).string() : given;
  };
  return openGpt2Tokenizer(pathOf(files.vocabulary, "vocab.json"), pathOf(files.merges, "merges.txt"));
}

const TokenizerRow kTokenizers[] = {
    {{"HuggingFaceTokenizer", "a tokenizer.json, or its folder"},
     [](const TokenizerFiles &files) { return openHuggingFaceTokenizer(files.model); }},
    {{"SentencePieceTokenizer", "a .model of sentencepiece"},
     [](const TokenizerFiles &files) { return openSentencePiece(files.model); }},
    {{"GPT2BPETokenizer",
      "a folder with vocab.json and merges.txt; of mgc-data --vocab-file and --merge-file too"},
     openGpt2Files},
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
  if (!files.vocabulary.empty() && row->open != openGpt2Files)
    return errorf("--vocab-file {}: is for --tokenizer-type GPT2BPETokenizer, found {}", files.vocabulary,
                  type);
  const bool hasBoth = !files.vocabulary.empty() && !files.merges.empty();
  if (row->hasFile && files.model.empty() && !hasBoth)
    return errorf("--tokenizer-type {}: needs --tokenizer-model: {}", type, row->type.what);
  return row->open(files);
}

} // namespace mgc
