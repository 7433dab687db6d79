// Byte-pair encoding: a word begins as its characters (or bytes); of all neighbours whose merge is known those of the lowest
// rank are merged, the leftmost first, until none is left.
//
//   merges  0: t h   1: th e     t h e t h -> th e th -> the th
#include "runtime/tokenizers/ByteLevel.h"
#include "runtime/tokenizers/TokenModel.h"
#include "runtime/tokenizers/Unicode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace mgc {

namespace {

struct PairMerge {
  uint32_t rank = UINT32_MAX; // none
  int32_t id = 0;
};

// Pairs of tokens -> their merge: open addressing, at most half full.
class MergeTable {
public:
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(std::max<size_t>(16, 2 * merges))) {}
  void add(int32_t left, int32_t right, PairMerge merge) {
    Slot &slot = slots_[placeOf(keyOf(left, right))];
    slot = {keyOf(left, right), merge}; // the last of equal ones counts
  }
  PairMerge find(int32_t left, int32_t right) const { return slots_[placeOf(keyOf(left, right))].merge; }

private:
  static constexpr uint64_t kNone = UINT64_MAX;
  struct Slot {
    uint64_t key = kNone;
    PairMerge merge;
  };
  static uint64_t keyOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t placeOf(uint64_t key) const {
    size_t place = (key * 0x9E3779B97F4A7C15u) >> 20 & (slots_.size() - 1);
    while (slots_[place].key != kNone && slots_[place].key != key)
      place = (place + 1) & (slots_.size() - 1);
    return place;
  }
  std::vector<Slot> slots_;
};

class BpeModel final : public TokenModel {
public:
  static Result<std::unique_ptr<TokenModel>> make(const JsonPlace &json, bool givesBytes) {
    std::unique_ptr<BpeModel> model(new BpeModel());
    MGC_TRY(model->read(json, givesBytes));
    MGC_TRY(model->readMerges(json["merges"]));
    return std::unique_ptr<TokenModel>(std::move(model));
  }

  void tokenize(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const override {
    if (ignoresMerges_)
      if (const auto whole = findToken(words_, word)) {
        addToken(*whole, word.size(), ids, ends);
        return;
      }
    const size_t begin = ids.size();
    addSymbols(word, ids, ends);
    constexpr size_t kFew = 48; // up to here looking through all neighbours is faster than a queue
    if (ids.size() - begin <= kFew)
      mergeFew(begin, ids, ends);
    else
      mergeMany(begin, ids, ends);
  }
  int64_t vocabulary() const override { return vocabulary_; }
  std::optional<int32_t> idOf(std::string_view token) const override { return findToken(names_, token); }
  bool hasId(int32_t id) const override { return hasTokenId(names_, id); }
  void forEach(const Visit &visit) const override { forEachToken(names_, visit); }

private:
  BpeModel() = default;

  Status read(const JsonPlace &json, bool givesBytes) {
    if (const JsonPlace dropout = json["dropout"];
        !dropout.isNull() && !(dropout.value().is_number() && dropout.value() == 0))
      return errorf("{}: is {}, expected none: ids are not drawn at random", dropout.where(), dropout.shown());
    MGC_ASSIGN(names, readVocabulary(json["vocab"]));
    MGC_ASSIGN(fallsBack, json["byte_fallback"].flag(false));
    MGC_ASSIGN(fuses, json["fuse_unk"].flag(false));
    MGC_ASSIGN(ignores, json["ignore_merges"].flag(false));
    vocabulary_ = std::ssize(names), fusesUnknown_ = fuses, ignoresMerges_ = ignores, givesBytes_ = givesBytes;
    for (auto [field, text] :
         {std::pair("continuing_subword_prefix", &prefix_), std::pair("end_of_word_suffix", &suffix_)})
      if (!json[field].isNull())
        MGC_SET(*text, json[field].text());
    if (!json["unk_token"].isNull()) {
      MGC_ASSIGN(unknown, json["unk_token"].text());
      unknown_ = findToken(names, unknown);
      if (!unknown_)
        return errorf("{}.unk_token: {} is not in the vocabulary", json.where(), printable(unknown));
    }
    if (fallsBack)
      fallbacks_ = byteTokens(names);
    for (const auto &[name, id] : names)
      if (!givesBytes)
        words_.emplace(name, id);
      else if (auto bytes = bytesOfToken(name))
        words_.emplace(std::move(*bytes), id);
    names_ = std::move(names);
    bytes_.fill(-1);
    for (int byte = 0; byte < 256; ++byte)
      bytes_[static_cast<size_t>(byte)] = findToken(words_, std::string(1, static_cast<char>(byte))).value_or(-1);
    return Status::ok();
  }

  static Result<std::pair<std::string, std::string>> readMerge(const JsonPlace &json) {
    if (json.size() == 2) {
      MGC_ASSIGN(left, json[size_t(0)].text());
      MGC_ASSIGN(right, json[size_t(1)].text());
      return std::pair(std::move(left), std::move(right));
    }
    MGC_ASSIGN(both, json.text());
    const size_t space = both.find(' ');
    if (space == std::string::npos)
      return errorf("{}: is {}, expected two tokens", json.where(), json.shown());
    return std::pair(both.substr(0, space), both.substr(space + 1));
  }

  Status readMerges(const JsonPlace &json) {
    if (!json.value().is_array())
      return errorf("{}: is {}, expected a list of pairs", json.where(), json.shown());
    merges_ = MergeTable(json.size());
    for (size_t rank = 0; rank < json.size(); ++rank) {
      MGC_ASSIGN(pair, readMerge(json[rank]));
      const auto &[left, right] = pair;
      const auto leftId = idOf(left), rightId = idOf(right);
      const auto id = right.size() >= prefix_.size() ? idOf(left + right.substr(prefix_.size())) : std::nullopt;
      if (!leftId || !rightId || !id)
        return errorf("{}: merges {} and {}, of which one, or the result, is not in the vocabulary", json[rank].where(),
                      printable(left), printable(right));
      merges_.add(*leftId, *rightId, {static_cast<uint32_t>(rank), *id});
    }
    return Status::ok();
  }

  std::optional<int32_t> symbolOf(std::string_view character, bool isFirst, bool isLast) const {
    const bool hasPrefix = !isFirst && !prefix_.empty(), hasSuffix = isLast && !suffix_.empty();
    if (!hasPrefix && !hasSuffix)
      return findToken(words_, character);
    std::string text(hasPrefix ? prefix_ : "");
    text.append(character).append(hasSuffix ? suffix_ : "");
    return findToken(words_, text);
  }

  void addSymbols(std::string_view word, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const {
    if (givesBytes_ && prefix_.empty() && suffix_.empty() && !unknown_ && fallbacks_.empty()) {
      for (size_t at = 0; at < word.size(); ++at)
        if (const int32_t id = bytes_[static_cast<unsigned char>(word[at])]; id >= 0)
          addToken(id, at + 1, ids, ends);
      return;
    }
    bool isUnknown = false; // a token for what is not known is due
    for (size_t at = 0; at < word.size();) {
      const size_t size = givesBytes_ ? 1 : unicode::lengthAt(word, at);
      const std::string_view character = word.substr(at, size);
      const auto id = symbolOf(character, at == 0, at + size == word.size());
      if (id) {
        if (isUnknown)
          addToken(*unknown_, at, ids, ends);
        isUnknown = false;
        addToken(*id, at + size, ids, ends);
      } else if (!fallbacks_.empty()) {
        for (size_t i = 0; i < size; ++i)
          addToken(fallbacks_[static_cast<unsigned char>(character[i])], at + i + 1, ids, ends);
      } else if (unknown_) {
        if (isUnknown && !fusesUnknown_)
          addToken(*unknown_, at, ids, ends);
        isUnknown = true;
      }
      at += size;
    }
    if (isUnknown)
      addToken(*unknown_, word.size(), ids, ends);
  }

  void mergeFew(size_t begin, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const {
    std::array<PairMerge, 48> merges; // each symbol merged with the next
    size_t count = ids.size() - begin;
    int32_t *symbols = ids.data() + begin;
    for (size_t i = 0; i + 1 < count; ++i)
      merges[i] = merges_.find(symbols[i], symbols[i + 1]);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i)
        if (merges[i].rank < merges[best].rank)
          best = i;
      if (merges[best].rank == UINT32_MAX)
        break;
      symbols[best] = merges[best].id;
      if (ends)
        ends->erase(ends->end() - static_cast<std::ptrdiff_t>(count - best));
      --count;
      std::copy(symbols + best + 2, symbols + count + 1, symbols + best + 1);
      if (best + 1 < count)
        std::copy(merges.data() + best + 2, merges.data() + count, merges.data() + best + 1);
      if (best > 0)
        merges[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
      if (best + 1 < count)
        merges[best] = merges_.find(symbols[best], symbols[best + 1]);
    }
    ids.resize(begin + count);
  }

  // Symbols are a list; a queue has the merges of neighbours, some of which are there no longer.
  void mergeMany(size_t begin, std::vector<int32_t> &ids, std::vector<uint32_t> *ends) const {
    struct Symbol {
      int32_t id, previous, next; // -1: none; id -1: merged into another
      uint32_t end = 0;
    };
    struct Candidate {
      uint32_t rank;
      int32_t place, id;
      bool operator<(const Candidate &other) const {
        return rank != other.rank ? rank > other.rank : place > other.place;
      }
    };
    const auto count = static_cast<int32_t>(ids.size() - begin);
    std::vector<Symbol> symbols(static_cast<size_t>(count));
    const size_t firstEnd = ends ? ends->size() - static_cast<size_t>(count) : 0;
    for (int32_t i = 0; i < count; ++i)
      symbols[i] = {ids[begin + static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1,
                    ends ? (*ends)[firstEnd + static_cast<size_t>(i)] : 0};
    std::priority_queue<Candidate> queue;
    const auto offer = [&](int32_t place) {
      if (place < 0 || symbols[place].next < 0)
        return;
      const PairMerge merge = merges_.find(symbols[place].id, symbols[symbols[place].next].id);
      if (merge.rank != UINT32_MAX)
        queue.push({merge.rank, place, merge.id});
    };
    for (int32_t i = 0; i < count; ++i)
      offer(i);
    while (!queue.empty()) {
      const Candidate candidate = queue.top();
      queue.pop();
      Symbol &left = symbols[candidate.place];
      if (left.id < 0 || left.next < 0)
        continue;
      Symbol &right = symbols[left.next];
      const PairMerge merge = merges_.find(left.id, right.id);
      if (merge.rank == UINT32_MAX || merge.id != candidate.id)
        continue;
      left.id = merge.id, right.id = -1, left.next = right.next, left.end = right.end;
      if (left.next >= 0)
        symbols[left.next].previous = candidate.place;
      offer(left.previous);
      offer(candidate.place);
    }
    ids.resize(begin);
    if (ends)
      ends->resize(firstEnd);
    for (int32_t i = 0; i >= 0 && i < count; i = symbols[i].next)
      addToken(symbols[i].id, symbols[i].end, ids, ends);
  }

  TokenIds names_, words_; // keyed by the file's spelling; by words
  std::array<int32_t, 256> bytes_{};
  std::vector<int32_t> fallbacks_;
  MergeTable merges_{0};
  std::string prefix_, suffix_;
  std::optional<int32_t> unknown_;
  bool fusesUnknown_ = false, ignoresMerges_ = false, givesBytes_ = false;
  int64_t vocabulary_ = 0;
};

} // namespace

Result<std::unique_ptr<TokenModel>> makeBpe(const JsonPlace &json, bool givesBytes) {
  return BpeModel::make(json, givesBytes);
}

} // namespace mgc
