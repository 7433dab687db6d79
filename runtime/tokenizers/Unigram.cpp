// Unigram: among all divisions of a word into tokens, the one whose scores have the largest sum. A character that
// begins no token of its own length may be unknown, with a score of the lowest less 10; neighbours that are unknown are
// one.
#include "runtime/tokenizers/TokenModel.h"
#include "runtime/tokenizers/Unicode.h"

#include <algorithm>
#include <limits>

namespace mgc {

namespace {

// Texts by their bytes: children of a node lie in a table of all.
class ByteTrie {
public:
  void add(std::string_view text, int32_t id) {
    int32_t node = 0;
    for (const char c : text) {
      int32_t &child = children_[keyOf(node, c)];
      if (child == 0) {
        child = static_cast<int32_t>(ids_.size());
        ids_.push_back(-1);
      }
      node = child;
    }
    ids_[static_cast<size_t>(node)] = id;
  }
  // Calls visit(end, id) for each text that begins at `begin`, the shortest first.
  template <typename Visit> void forEachAt(std::string_view text, size_t begin, const Visit &visit) const {
    int32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto child = children_.find(keyOf(node, text[at]));
      if (child == children_.end())
        return;
      node = child->second;
      if (ids_[static_cast<size_t>(node)] >= 0)
        visit(at + 1, ids_[static_cast<size_t>(node)]);
    }
  }

private:
  static uint64_t keyOf(int32_t node, char c) {
    return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(c);
  }
  std::unordered_map<uint64_t, int32_t> children_;
  std::vector<int32_t> ids_ = {-1};
};

class UnigramModel final : public TokenModel {
public:
  static Result<std::unique_ptr<TokenModel>> make(const JsonPlace &json, bool givesBytes) {
    if (givesBytes)
      return errorf("{}: stands behind ByteLevel, expected BPE there", json.where());
    std::unique_ptr<UnigramModel> model(new UnigramModel());
    const JsonPlace vocabulary = json["vocab"];
    for (size_t i = 0; i < vocabulary.size(); ++i)
      MGC_TRY(model->add(vocabulary[i], static_cast<int32_t>(i)));
    MGC_ASSIGN(unknown, json["unk_id"].size(-1));
    MGC_ASSIGN(fallsBack, json["byte_fallback"].flag(false));
    if (unknown >= std::ssize(model->scores_))
      return errorf("{}.unk_id: is {}, expected less than {}, the number of tokens", json.where(), unknown,
                    model->scores_.size());
    model->unknown_ = static_cast<int32_t>(unknown);
    if (fallsBack)
      model->fallbacks_ = byteTokens(model->ids_);
    return std::unique_ptr<TokenModel>(std::move(model));
  }

  void tokenize(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const override {
    const std::vector<Step> best = bestSteps(word);
    std::vector<std::string_view> pieces; // from the last to the first
    for (size_t end = word.size(); end > 0;) {
      size_t begin = best[end].begin;
      while (best[end].id == unknown_ && begin > 0 && best[begin].id == unknown_)
        begin = best[begin].begin;
      pieces.push_back(word.substr(begin, end - begin));
      end = begin;
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
      addPiece(*piece, static_cast<size_t>(piece->data() - word.data()), ids, ends);
  }
  int64_t vocabulary() const override { return std::ssize(scores_); }
  std::optional<int32_t> idOf(std::string_view token) const override { return findToken(ids_, token); }
  bool hasId(int32_t id) const override { return id >= 0 && id < vocabulary(); }
  void forEach(const Visit &visit) const override { forEachToken(ids_, visit); }

private:
  struct Step {
    double score = -std::numeric_limits<double>::infinity(); // score of the best path to here
    size_t begin = 0;                                        // start of the path's last token
    int32_t id = -1;
  };
  UnigramModel() = default;

  Status add(const JsonPlace &row, int32_t id) {
    if (row.size() != 2 || !row.value()[1].is_number())
      return errorf("{}: is {}, expected a token and its score", row.where(), row.shown());
    MGC_ASSIGN(text, row[size_t(0)].text());
    scores_.push_back(row.value()[1].get<double>());
    lowest_ = std::min(lowest_, scores_.back());
    ids_.insert_or_assign(text, id);
    trie_.add(text, id);
    return Status::ok();
  }

  std::vector<Step> bestSteps(std::string_view word) const {
    constexpr double kUnknownPenalty = 10;
    std::vector<Step> best(word.size() + 1);
    best[0].score = 0;
    const auto offer = [&](size_t begin, size_t end, int32_t id, double score) {
      const double sum = score + best[begin].score;
      if (sum > best[end].score)
        best[end] = {sum, begin, id};
    };
    for (size_t begin = 0; begin < word.size();) {
      const size_t next = begin + unicode::lengthAt(word, begin);
      bool isKnown = false;
      trie_.forEachAt(word, begin, [&](size_t end, int32_t id) {
        offer(begin, end, id, scores_[static_cast<size_t>(id)]);
        isKnown = isKnown || end == next;
      });
      if (!isKnown)
        offer(begin, next, unknown_, lowest_ - kUnknownPenalty);
      begin = next;
    }
    return best;
  }

  void addPiece(std::string_view piece, size_t begin, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const {
    if (const auto id = findToken(ids_, piece))
      addToken(*id, begin + piece.size(), ids, ends);
    else if (!fallbacks_.empty())
      for (size_t i = 0; i < piece.size(); ++i)
        addToken(fallbacks_[static_cast<unsigned char>(piece[i])], begin + i + 1, ids, ends);
    else if (unknown_ >= 0)
      addToken(unknown_, begin + piece.size(), ids, ends);
  }

  TokenIds ids_;
  std::vector<double> scores_;
  double lowest_ = std::numeric_limits<double>::infinity();
  ByteTrie trie_;
  std::vector<int32_t> fallbacks_;
  int32_t unknown_ = -1;
};

} // namespace

Result<std::unique_ptr<TokenModel>> makeUnigram(const JsonPlace &json, bool givesBytes) {
  return UnigramModel::make(json, givesBytes);
}

} // namespace mgc
