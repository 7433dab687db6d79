// See TokenModel.h.
#include "runtime/tokenizers/TokenModel.h"

#include <algorithm>

namespace mgc {

namespace {

struct TokenModelRow {
  std::string_view name;
  Result<std::unique_ptr<TokenModel>> (*make)(const JsonPlace &json, bool givesBytes);
};
constexpr TokenModelRow kModels[] = {
    {"BPE", makeBpe}, {"Unigram", makeUnigram}, {"WordPiece", makeWordPiece}, {"WordLevel", makeWordLevel}};

// Older files do not name the type.
std::string_view typeOfFields(const JsonPlace &json) {
  return !json["merges"].isNull()                     ? "BPE"
         : json["vocab"].size() > 0                   ? "Unigram"
         : !json["max_input_chars_per_word"].isNull() ? "WordPiece"
                                                      : "WordLevel";
}

} // namespace

Result<std::unique_ptr<TokenModel>> makeTokenModel(const JsonPlace &json, bool givesBytes) {
  std::string type(typeOfFields(json));
  if (!json["type"].isNull())
    MGC_SET(type, json.type());
  MGC_ASSIGN(row, rowOf(json, type, kModels, "model"));
  return row->make(json, givesBytes);
}

Result<TokenIds> readVocabulary(const JsonPlace &json) {
  if (!json.value().is_object())
    return errorf("{}: is {}, expected an object of tokens and their ids", json.where(), json.shown());
  TokenIds ids;
  ids.reserve(json.value().size());
  for (const auto &[token, id] : json.value().items()) {
    const std::optional<int64_t> number = jsonSize(id);
    if (!number || *number > INT32_MAX)
      return errorf("{}: the id of {} is {}, expected 0 to {}", json.where(), printable(token), printable(id.dump()),
                    INT32_MAX);
    ids.emplace(token, static_cast<int32_t>(*number));
  }
  return ids;
}

std::optional<int32_t> findToken(const TokenIds &ids, std::string_view token) {
  const auto found = ids.find(token);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

bool hasTokenId(const TokenIds &ids, int32_t id) {
  return std::ranges::any_of(ids, [id](const auto &token) { return token.second == id; });
}

std::vector<int32_t> byteTokens(const TokenIds &ids) {
  std::vector<int32_t> bytes;
  for (int byte = 0; byte < 256; ++byte)
    if (const auto id = findToken(ids, fmt::format("<0x{:02X}>", byte)))
      bytes.push_back(*id);
  return bytes.size() == 256 ? bytes : std::vector<int32_t>();
}

void forEachToken(const TokenIds &ids, const TokenModel::Visit &visit) {
  for (const auto &[token, id] : ids)
    visit(token, id);
}

} // namespace mgc
