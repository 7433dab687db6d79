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
  // A source of that corpus, which calls itself by the name of the .jsonl.
  std::unique_ptr<DataSource> named(std::unique_ptr<DataSource> data, const std::string &path) const;

private:
  std::string prefix() const;
  std::string folder_;
};

// Field "text" of each line; `appendsEnd`: with the tokenizer's end token behind each document. Each run does it anew, each process for
// itself: mgc-data preprocess does it once.
Result<std::unique_ptr<TextLines>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer,
                                                 bool appendsEnd);

} // namespace mgc
