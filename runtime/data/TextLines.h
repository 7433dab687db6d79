// A .jsonl of texts -> indexed files of their tokens, in a folder of their own that is gone when nobody reads them.
#pragma once

#include "runtime/data/Data.h"

namespace mgc {

class TextLines {
public:
  explicit TextLines(std::string folder) : folder_(std::move(folder)) {}
  ~TextLines();
  TextLines(const TextLines &) = delete;
  TextLines &operator=(const TextLines &) = delete;
  CorpusOptions corpus() const; // all documents are for training; once opened it needs the folder no longer

private:
  std::string folder_;
};

// Field "text" of each line, with the tokenizer's end token behind each document. Each run does it anew, each process for
// itself: mgc-data preprocess does it once.
Result<std::unique_ptr<TextLines>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer);

} // namespace mgc
