// WordPiece and WordLevel: tokens are words, or the longest known beginnings of what is left of one.
#include "runtime/tokenizers/TokenModel.h"
#include "runtime/tokenizers/Unicode.h"

namespace mgc {

namespace {

struct WordVocabulary {
  TokenIds ids;
  int32_t unknown = 0;
};

Result<WordVocabulary> readWords(const JsonPlace &json, bool givesBytes) {
  if (givesBytes)
    return errorf("{}: stands behind ByteLevel, expected BPE there", json.where());
  MGC_ASSIGN(ids, readVocabulary(json["vocab"]));
  MGC_ASSIGN(name, json["unk_token"].text());
  const auto unknown = findToken(ids, name);
  if (!unknown)
    return errorf("{}.unk_token: {} is not in the vocabulary", json.where(), printable(name));
  return WordVocabulary{std::move(ids), *unknown};
}

class WordPieceModel final : public TokenModel {
public:
  WordPieceModel(WordVocabulary words, std::string prefix, int64_t most)
      : words_(std::move(words)), prefix_(std::move(prefix)), most_(most) {}

  // One token that is unknown makes the word one.
  void tokenize(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const override {
    const size_t begin = ids.size(), firstEnd = ends ? ends->size() : 0;
    if (!isTooLong(word) && addPieces(word, ids, ends))
      return;
    ids.resize(begin);
    if (ends)
      ends->resize(firstEnd);
    addToken(words_.unknown, word.size(), ids, ends);
  }
  int64_t vocabulary() const override { return std::ssize(words_.ids); }
  std::optional<int32_t> idOf(std::string_view token) const override { return findToken(words_.ids, token); }
  bool hasId(int32_t id) const override { return hasTokenId(words_.ids, id); }
  void forEach(const Visit &visit) const override { forEachToken(words_.ids, visit); }

private:
  bool isTooLong(std::string_view word) const {
    int64_t characters = 0;
    for (size_t at = 0; at < word.size(); ++characters)
      at += unicode::lengthAt(word, at);
    return characters > most_;
  }

  bool addPieces(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const {
    std::string piece;
    for (size_t begin = 0; begin < word.size();) {
      size_t end = word.size();
      std::optional<int32_t> id;
      while (end > begin) {
        piece.assign(begin > 0 ? prefix_ : "").append(word.substr(begin, end - begin));
        if ((id = findToken(words_.ids, piece)))
          break;
        unicode::previous(word, end);
      }
      if (!id)
        return false;
      addToken(*id, end, ids, ends);
      begin = end;
    }
    return true;
  }

  WordVocabulary words_;
  std::string prefix_;
  int64_t most_; // characters of a word
};

class WordLevelModel final : public TokenModel {
public:
  explicit WordLevelModel(WordVocabulary words) : words_(std::move(words)) {}
  void tokenize(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const override {
    addToken(findToken(words_.ids, word).value_or(words_.unknown), word.size(), ids, ends);
  }
  int64_t vocabulary() const override { return std::ssize(words_.ids); }
  std::optional<int32_t> idOf(std::string_view token) const override { return findToken(words_.ids, token); }
  bool hasId(int32_t id) const override { return hasTokenId(words_.ids, id); }
  void forEach(const Visit &visit) const override { forEachToken(words_.ids, visit); }

private:
  WordVocabulary words_;
};

} // namespace

Result<std::unique_ptr<TokenModel>> makeWordPiece(const JsonPlace &json, bool givesBytes) {
  MGC_ASSIGN(words, readWords(json, givesBytes));
  MGC_ASSIGN(prefix, json["continuing_subword_prefix"].text());
  MGC_ASSIGN(most, json["max_input_chars_per_word"].size(100));
  return std::unique_ptr<TokenModel>(std::make_unique<WordPieceModel>(std::move(words), std::move(prefix), most));
}

Result<std::unique_ptr<TokenModel>> makeWordLevel(const JsonPlace &json, bool givesBytes) {
  MGC_ASSIGN(words, readWords(json, givesBytes));
  return std::unique_ptr<TokenModel>(std::make_unique<WordLevelModel>(std::move(words)));
}

} // namespace mgc
