// Models of a tokenizer.json: what becomes of a word.
#pragma once

#include "runtime/tokenizers/JsonPlace.h"

#include <cstdint>
#include <functional>
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
  // Appends the ids of a word that is not empty, and, where `ends` is given, the byte of the word where each of them ends.
  virtual void tokenize(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual std::optional<int32_t> idOf(std::string_view token) const = 0; // as the file writes it
  virtual bool hasId(int32_t id) const = 0;                              // searches all tokens
  using Visit = std::function<void(std::string_view token, int32_t id)>;
  virtual void forEach(const Visit &visit) const = 0; // in any order, as the file writes them
};

// Appends a token of a word, which ends before the byte `end`.
inline void addToken(int32_t id, size_t end, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) {
  ids.push_back(id);
  if (ends)
    ends->push_back(static_cast<uint32_t>(end));
}

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
void forEachToken(const TokenIds &ids, const TokenModel::Visit &visit);

} // namespace mgc
