// See Tokenizer.h.
#include "runtime/tokenizers/Tokenizer.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/File.h"
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
  std::vector<std::string> (*paths)(const TokenizerFiles &files); // null: it has no files
};

std::vector<std::string> gpt2Paths(const TokenizerFiles &files) {
  const std::filesystem::path folder = files.model;
  const auto pathOf = [&](const std::string &given, const char *name) {
    return given.empty() ? (folder / name).string() : given;
  };
  return {pathOf(files.vocabulary, "vocab.json"), pathOf(files.merges, "merges.txt")};
}

Opened openGpt2Files(const TokenizerFiles &files) {
  const std::vector<std::string> paths = gpt2Paths(files);
  return openGpt2Tokenizer(paths[0], paths[1]);
}

const TokenizerRow kTokenizers[] = {
    {{"HuggingFaceTokenizer", "a tokenizer.json, or its folder"},
     [](const TokenizerFiles &files) { return openHuggingFaceTokenizer(files.model); },
     [](const TokenizerFiles &files) { return std::vector{tokenizerJsonOf(files.model)}; }},
    {{"SentencePieceTokenizer", "a .model of sentencepiece"},
     [](const TokenizerFiles &files) { return openSentencePiece(files.model); },
     [](const TokenizerFiles &files) { return std::vector{files.model}; }},
    {{"GPT2BPETokenizer", "a folder with vocab.json and merges.txt; of mgc-data --vocab-file and --merge-file too"},
     openGpt2Files,
     gpt2Paths},
    {{"ByteTokenizer", "a token per byte, and 256 at the end of a document"},
     [](const TokenizerFiles &) -> Opened { return makeByteTokenizer(); },
     nullptr},
    {{"NullTokenizer", "texts are token ids; --vocab-size - 1 ends a document"},
     [](const TokenizerFiles &files) { return makeNullTokenizer(files.vocabularySize); },
     nullptr},
};

Result<const TokenizerRow *> rowOf(const TokenizerFiles &files) {
  std::string type = files.type;
  if (type.empty())
    type = files.model.ends_with(".model") ? "SentencePieceTokenizer" : "HuggingFaceTokenizer";
  std::string names;
  for (const TokenizerRow &row : kTokenizers) {
    if (row.type.name == type)
      return &row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.type.name);
  }
  return errorf("--tokenizer-type {}: is not known, expected one of {}", type, names);
}

Result<TokenizerContent> contentOf(const std::string &path) {
  MGC_ASSIGN(file, FileReader::open(path));
  Checksum checksum;
  std::vector<std::byte> piece(size_t(1) << 20);
  for (int64_t at = 0; at < file.size(); at += std::ssize(piece)) {
    piece.resize(static_cast<size_t>(std::min<int64_t>(std::ssize(piece), file.size() - at)));
    MGC_TRY(file.read(at, piece));
    checksum.add(piece);
  }
  return TokenizerContent{path, file.size(), checksum.text()};
}

} // namespace

std::string withBlanks(std::string_view piece) {
  constexpr std::string_view kBlank = "\u2581";
  std::string text(piece);
  for (size_t at = text.find(kBlank); at != std::string::npos; at = text.find(kBlank, at + 1))
    text.replace(at, kBlank.size(), " ");
  return text;
}

std::vector<TokenizerType> tokenizerTypes() {
  std::vector<TokenizerType> types;
  for (const TokenizerRow &row : kTokenizers)
    types.push_back(row.type);
  return types;
}

Opened openTokenizer(const TokenizerFiles &files) {
  MGC_ASSIGN(row, rowOf(files));
  if (!files.vocabulary.empty() && row->open != openGpt2Files)
    return errorf("--vocab-file {}: is for --tokenizer-type GPT2BPETokenizer, found {}", files.vocabulary,
                  row->type.name);
  const bool hasBoth = !files.vocabulary.empty() && !files.merges.empty();
  if (row->paths && files.model.empty() && !hasBoth)
    return errorf("--tokenizer-type {}: needs --tokenizer-model: {}", row->type.name, row->type.what);
  return row->open(files);
}

Result<std::vector<TokenizerContent>> contentsOf(const TokenizerFiles &files) {
  MGC_ASSIGN(row, rowOf(files));
  std::vector<TokenizerContent> contents;
  for (const std::string &path : row->paths ? row->paths(files) : std::vector<std::string>()) {
    MGC_ASSIGN(content, contentOf(path));
    contents.push_back(std::move(content));
  }
  return contents;
}

} // namespace mgc
