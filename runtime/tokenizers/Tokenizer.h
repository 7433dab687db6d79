// Texts -> token ids.
//   in:  the files that a model's tokenizer came with
//   out: the ids that Hugging Face's tokenizers, or sentencepiece, gives
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizers/TrackedText.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mgc {

// A thread's part in tokenizing: it keeps the ids of words that it has seen. Valid as long as its tokenizer.
class Encoder {
public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`, which is UTF-8: refused where it is not. `special`: with the tokens that the tokenizer puts
  // around each text. `places`, where given: appends the bytes of the text that each of them is made of, as offset_mapping of
  // transformers has them before it trims white space; none of a special token.
  virtual Status encode(std::string_view text, bool special, std::vector<int32_t> &ids,
                        std::vector<TextRange> *places = nullptr) = 0;
};

class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  virtual std::unique_ptr<Encoder> encoder() const = 0; // one for each thread
  virtual int64_t vocabulary() const = 0;               // number of tokens, added ones too
  virtual std::optional<int32_t> endToken() const = 0;  // the token at the end of a text; none: not known
  virtual std::optional<int32_t> idOf(std::string_view token) const = 0;
  // The texts of all tokens by id, to show: bytes of a token of bytes, a blank for "▁"; empty: no token has the id.
  virtual std::vector<std::string> texts() const = 0;
};
// With a blank for each "▁".
std::string withBlanks(std::string_view piece);

// Files and sizes of a tokenizer, as Megatron-LM's --tokenizer-type, --tokenizer-model, --vocab-size, --vocab-file and
// --merge-file say them.
struct TokenizerFiles {
  std::string type;                   // a row of tokenizerTypes()
  std::string model;                  // tokenizer.json, its folder, or a .model
  int64_t vocabularySize = 0;         // for NullTokenizer
  std::string vocabulary{}, merges{}; // for GPT2BPETokenizer, where they do not lie in a folder `model`
};
struct TokenizerType {
  std::string_view name, what; // "HuggingFaceTokenizer", "tokenizer.json"
};
std::vector<TokenizerType> tokenizerTypes();

// An empty type follows from the file's name.
Result<std::unique_ptr<Tokenizer>> openTokenizer(const TokenizerFiles &files);

// The files that openTokenizer reads ids from, with sizes and checksums of their contents. The file that names the end token is
// not among them. None: the type has no files.
struct TokenizerContent {
  std::string path;
  int64_t bytes = 0;
  std::string checksum; // Checksum::text
};
Result<std::vector<TokenizerContent>> contentsOf(const TokenizerFiles &files);

} // namespace mgc
