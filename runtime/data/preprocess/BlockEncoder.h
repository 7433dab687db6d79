// A block of lines -> the sequences of its documents.
#pragma once

#include "runtime/data/preprocess/JsonLine.h"
#include "runtime/data/preprocess/LineReader.h"
#include "runtime/data/preprocess/Preprocess.h"

namespace mgc {

// EncodedTexts: the tokens of one key of some lines; elements of all sequences one behind the other.
struct EncodedTexts {
  std::vector<std::byte> elements;
  std::vector<int32_t> lengths;   // lengths of the sequences, in tokens
  std::vector<int32_t> sequences; // number of sequences per document
};
using EncodedBlock = std::vector<EncodedTexts>; // by key

// BlockEncoder: lines of JSON to token ids. Each thread has one of its own.
class BlockEncoder {
public:
  // `end`: appended to the last sequence of each document; none: nothing.
  BlockEncoder(const PreprocessOptions &options, const Tokenizer &tokenizer, ElementType type,
               std::optional<int32_t> end)
      : options_(options), encoder_(tokenizer.encoder()), type_(type), end_(end) {}
  // The lines of the partition.
  Result<EncodedBlock> encode(const LineBlock &block, int64_t partition);

private:
  Status addDocument(const LineTexts &texts, EncodedTexts &out);

  const PreprocessOptions &options_;
  std::unique_ptr<Encoder> encoder_;
  ElementType type_;
  std::optional<int32_t> end_;
  std::vector<int32_t> ids_;
  std::vector<LineTexts> texts_;
};

} // namespace mgc
