// Models of a tokenizer.json: what becomes of a word.
#pragma once

#include "runtime/tokenizers/JsonPlace.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace mgc {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TokenIds = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class TokenModel {
public:
  virtual ~TokenModel() = default;
  // Appends the ids of a word that is not empty.
  virtual void tokenize(std::string_view word, std::vector<int32_t> &ids) const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual std::optional<int32_t> idOf(std::string_view token) const = 0; // as the file writes it
  virtual bool hasId(int32_t id) const = 0;                              // searches all tokens
};

// `givesBytes`: words are bytes, see PreTokenizer.
Result<std::unique_ptr<TokenModel>> makeTokenModel(const JsonPlace &json, bool givesBytes);

// The makers of the families.
Result<std::unique_ptr<TokenModel>> makeBpe(const JsonPlace &json, bool givesBytes);
Result<std::unique_ptr<TokenModel>> makeWordPiece(const JsonPlace &json, bool givesBytes);
Result<std::unique_ptr<TokenModel>> makeWordLevel(const JsonPlace &json, bool givesBytes);
Result<std::unique_ptr<TokenModel>> makeUnigram(const JsonPlace &json, bool givesBytes);

// The ids of an object of tokens: 32-bit, not negative.
Result<TokenIds> readVocabulary(const JsonPlace &json);
// The ids of "<0x00>" to "<0xFF>"; empty where one is missing.
std::vector<int32_t> byteTokens(const TokenIds &ids);
std::optional<int32_t> findToken(const TokenIds &ids, std::string_view token);
bool hasTokenId(const TokenIds &ids, int32_t id);

} // namespace mgc
