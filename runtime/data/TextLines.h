// A .jsonl of texts -> indexed files of their tokens, which have no names: they are gone with the process, however that ends.
#pragma once

#include "runtime/data/Data.h"

#include <atomic>
#include <map>

namespace mgc {

// Field "text" of each line; `appendsEnd`: with the tokenizer's end token behind each document. The files have the
// prefix `path` and are on the file system of TMPDIR. Each process of each run tokenizes again: mgc-data preprocess
// does it once. `stop`: as DataReading::stop.
Result<std::shared_ptr<const IndexedTokens>> tokenizeLines(const std::string &path, const TokenizerFiles &tokenizer,
                                                           bool appendsEnd, const std::atomic<bool> *stop);

// The same, once for each file; for files and a tokenizer that stay as they are.
class TokenizedLines {
public:
  Result<std::shared_ptr<const IndexedTokens>> of(const std::string &path, const TokenizerFiles &tokenizer,
                                                  bool appendsEnd, const std::atomic<bool> *stop);

private:
  std::map<std::string, std::shared_ptr<const IndexedTokens>> files_;
};

} // namespace mgc
