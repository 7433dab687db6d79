// JSON lines -> indexed files of token ids: what Megatron-LM's tools/preprocess_data.py writes, byte for byte.
//   in:  files of an object per line, keys of its texts, a tokenizer
//   out: PREFIX_KEY_document.bin and .idx for each key (PREFIX_KEY_sentence where texts are split)
#pragma once

#include "runtime/data/indexed/IndexedWriter.h"
#include "runtime/tokenizers/Tokenizer.h"

#include <atomic>
#include <functional>

namespace mgc {

struct PreprocessOptions {
  std::vector<std::string> inputs;
  std::string outputPrefix;
  std::vector<std::string> keys = {"text"};
  TokenizerFiles tokenizer;
  std::optional<std::string> endToken; // else the tokenizer's own
  bool appendsEnd = false;             // an end token after each document that has tokens
  bool special = true;                 // the tokenizer's own tokens around each text
  bool splitsSentences = false;        // each a sequence
  int workers = 1;
  int64_t partitions = 1; // line i goes to part i modulo this; the parts follow each other
  std::string remedyOfKeys = "--json-keys names what to read"; // for a line without one of the keys
  bool restarts = false;                                       // the output of an earlier run is not continued
  // Else: files without names on the file system of this folder, which the summary has. Nothing is left of such a run, and
  // outputPrefix is only their name in messages.
  std::optional<std::string> unnamedIn = std::nullopt;
};

struct PreprocessProgress {
  int64_t documents = 0, tokens = 0, bytes = 0, allBytes = 0; // bytes of the input, once for each partition
  double seconds = 0;
};
struct PreprocessSummary {
  PreprocessProgress total;
  bool interrupted = false, resumed = false;
  std::vector<std::string> prefixes;                         // prefixes of the files
  std::vector<std::shared_ptr<const IndexedTokens>> unnamed; // one per key, unless it was interrupted
};

// Memory does not grow with the input. An error names the line. A run that ends early, whether it is told to by `stop`
// or dies, leaves its state in PREFIX.state.json and its files as .part: the same call continues them.
Result<PreprocessSummary> preprocess(const PreprocessOptions &options, const std::atomic<bool> &stop,
                                     const std::function<void(const PreprocessProgress &)> &observer);

} // namespace mgc
