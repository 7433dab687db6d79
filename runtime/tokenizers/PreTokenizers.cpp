// See PreTokenizers.h.
#include "runtime/tokenizers/PreTokenizers.h"

#include "runtime/tokenizers/OnigPattern.h"
#include "runtime/tokenizers/TextSplit.h"
#include "runtime/tokenizers/Unicode.h"

#include <array>

namespace mgc {

namespace {

using Made = Result<std::unique_ptr<PreTokenizer>>;

constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
    {"Removed", SplitBehavior::removed},
    {"Isolated", SplitBehavior::isolated},
    {"MergedWithPrevious", SplitBehavior::mergedWithPrevious},
    {"MergedWithNext", SplitBehavior::mergedWithNext},
    {"Contiguous", SplitBehavior::contiguous},
}};

Result<SplitBehavior> behaviorOf(const JsonPlace &json) {
  MGC_ASSIGN(name, json.text());
  for (const auto &[known, behavior] : kBehaviors)
    if (name == known)
      return behavior;
  return errorf("{}: is {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", json.where(),
                name);
}

Status send(const TextPiece &piece, size_t begin, size_t end, const PieceSink &sink) {
  return end == begin ? Status::ok() : sink(piece.part(begin, end));
}

Status sendParts(const TextPiece &piece, const std::vector<TextPart> &parts, const PieceSink &sink) {
  for (const TextPart &part : parts)
    MGC_TRY(send(piece, part.begin, part.end, sink));
  return Status::ok();
}

// A piece with another text.
class ChangedPiece {
public:
  explicit ChangedPiece(const TextPiece &piece) : piece_(piece) {}
  void copy(size_t begin, size_t end) {
    text_ += piece_.text.substr(begin, end - begin);
    if (piece_.origins)
      origins_.insert(origins_.end(), piece_.origins + begin, piece_.origins + end);
  }
  // `text` stands for the piece's bytes [begin, end).
  void append(std::string_view text, size_t begin, size_t end) {
    text_ += text;
    if (piece_.origins)
      origins_.resize(text_.size(), originOf(piece_.origins, begin, end));
  }
  // Like the first byte of what follows.
  void prepend(std::string_view text) {
    text_.insert(0, text);
    if (piece_.origins)
      origins_.insert(origins_.begin(), text.size(), origins_.empty() ? TextRange() : origins_.front());
  }
  TextPiece piece() const { return {text_, piece_.isFirst, piece_.origins ? origins_.data() : nullptr}; }

private:
  const TextPiece &piece_;
  std::string text_;
  std::vector<TextRange> origins_;
};

// Cuts where a rule about characters says so.
template <typename IsMatch>
Status splitByCharacter(const TextPiece &piece, SplitBehavior behavior, const IsMatch &isMatch, const PieceSink &sink) {
  TextParts parts(piece.text.size());
  for (size_t at = 0; at < piece.text.size();) {
    const size_t begin = at;
    if (isMatch(unicode::next(piece.text, at)))
      parts.addMatch(begin, at);
  }
  return sendParts(piece, parts.merged(behavior, false), sink);
}

// --- Patterns ---------------------------------------------------------------------------------------------------

class SplitPreTokenizer final : public PreTokenizer {
public:
  SplitPreTokenizer(OnigPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  static Made make(const JsonPlace &json) {
    const JsonPlace pattern = json["pattern"];
    const bool isPlain = !pattern["String"].isNull();
    MGC_ASSIGN(text, pattern[isPlain ? "String" : "Regex"].text());
    MGC_ASSIGN(behavior, behaviorOf(json["behavior"]));
    MGC_ASSIGN(invert, json["invert"].flag(false));
    MGC_ASSIGN(compiled, OnigPattern::compile(isPlain ? OnigPattern::quoted(text) : text, json.where()));
    return std::unique_ptr<PreTokenizer>(std::make_unique<SplitPreTokenizer>(std::move(compiled), behavior, invert));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override {
    if (behavior_ == SplitBehavior::isolated) { // the common case; needs no list of parts
      size_t done = 0;
      MGC_TRY(pattern_.forEach(piece.text, [&](size_t begin, size_t end) {
        MGC_TRY(send(piece, done, begin, sink));
        done = end;
        return send(piece, begin, end, sink);
      }));
      return send(piece, done, piece.text.size(), sink);
    }
    TextParts parts(piece.text.size());
    MGC_TRY(pattern_.forEach(piece.text, [&](size_t begin, size_t end) {
      parts.addMatch(begin, end);
      return Status::ok();
    }));
    return sendParts(piece, parts.merged(behavior_, invert_), sink);
  }

private:
  OnigPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// GPT-2's.
class BytePreTokenizer final : public PreTokenizer {
public:
  static Made make(const JsonPlace &json) {
    auto bytes = std::make_unique<BytePreTokenizer>();
    MGC_ASSIGN(prepends, json["add_prefix_space"].flag(true));
    MGC_ASSIGN(splits, json["use_regex"].flag(true));
    bytes->prependsSpace_ = prepends;
    if (splits) {
      MGC_ASSIGN(pattern,
                 OnigPattern::compile(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                                      json.where()));
      bytes->words_ = std::make_unique<SplitPreTokenizer>(std::move(pattern), SplitBehavior::isolated, false);
    }
    return std::unique_ptr<PreTokenizer>(std::move(bytes));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override {
    const auto cut = [&](const TextPiece &whole) { return words_ ? words_->split(whole, sink) : sink(whole); };
    if (!prependsSpace_ || piece.text.starts_with(' '))
      return cut(piece);
    ChangedPiece changed(piece);
    changed.copy(0, piece.text.size());
    changed.prepend(" ");
    return cut(changed.piece());
  }
  bool givesBytes() const override { return true; }

private:
  bool prependsSpace_ = true;
  std::unique_ptr<SplitPreTokenizer> words_;
};

// --- Rules about characters -------------------------------------------------------------------------------------

class PlainPreTokenizer final : public PreTokenizer {
public:
  using Function = Status (*)(const TextPiece &piece, const PieceSink &sink);
  explicit PlainPreTokenizer(Function function) : function_(function) {}
  template <Function function> static Made make(const JsonPlace &) {
    return std::unique_ptr<PreTokenizer>(std::make_unique<PlainPreTokenizer>(function));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override { return function_(piece, sink); }

private:
  Function function_;
};

Status splitAtWhitespace(const TextPiece &piece, const PieceSink &sink) {
  return splitByCharacter(piece, SplitBehavior::removed, unicode::isWhitespace, sink);
}

Status splitAsBert(const TextPiece &piece, const PieceSink &sink) {
  return splitAtWhitespace(piece, [&](const TextPiece &word) {
    return splitByCharacter(word, SplitBehavior::isolated, unicode::isPunctuation, sink);
  });
}

// \w+|[^\w\s]+
Status splitWordsAndSigns(const TextPiece &piece, const PieceSink &sink) {
  return splitAtWhitespace(piece, [&](const TextPiece &word) {
    return splitByCharacter(word, SplitBehavior::contiguous, unicode::isWord, sink);
  });
}

class PunctuationPreTokenizer final : public PreTokenizer {
public:
  static Made make(const JsonPlace &json) {
    auto punctuation = std::make_unique<PunctuationPreTokenizer>();
    if (!json["behavior"].isNull())
      MGC_SET(punctuation->behavior_, behaviorOf(json["behavior"]));
    return std::unique_ptr<PreTokenizer>(std::move(punctuation));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override {
    return splitByCharacter(piece, behavior_, unicode::isPunctuation, sink);
  }

private:
  SplitBehavior behavior_ = SplitBehavior::isolated;
};

class DigitsPreTokenizer final : public PreTokenizer {
public:
  static Made make(const JsonPlace &json) {
    auto digits = std::make_unique<DigitsPreTokenizer>();
    MGC_ASSIGN(individual, json["individual_digits"].flag(false));
    digits->behavior_ = individual ? SplitBehavior::isolated : SplitBehavior::contiguous;
    return std::unique_ptr<PreTokenizer>(std::move(digits));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override {
    return splitByCharacter(piece, behavior_, unicode::isNumeric, sink);
  }

private:
  SplitBehavior behavior_ = SplitBehavior::contiguous;
};

// --- Metaspace, Sequence ----------------------------------------------------------------------------------------

class MetaspacePreTokenizer final : public PreTokenizer {
public:
  static Made make(const JsonPlace &json) {
    auto metaspace = std::make_unique<MetaspacePreTokenizer>();
    MGC_ASSIGN(replacement, json["replacement"].text());
    MGC_ASSIGN(splits, json["split"].flag(true));
    MGC_ASSIGN(prepends, json["add_prefix_space"].flag(true)); // a field of older files
    std::string scheme = prepends ? "always" : "never";
    if (!json["prepend_scheme"].isNull())
      MGC_SET(scheme, json["prepend_scheme"].text());
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return errorf("{}.prepend_scheme: is {}, expected always, first or never", json.where(), scheme);
    if (replacement.empty())
      return errorf("{}.replacement: is empty, expected a character", json.where());
    metaspace->replacement_ = replacement, metaspace->splits_ = splits;
    metaspace->always_ = scheme == "always", metaspace->first_ = scheme == "first";
    return std::unique_ptr<PreTokenizer>(std::move(metaspace));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override {
    ChangedPiece changed(piece);
    for (size_t at = 0, space = 0; at < piece.text.size(); at = space + 1) {
      space = std::min(piece.text.find(' ', at), piece.text.size());
      changed.copy(at, space);
      if (space < piece.text.size())
        changed.append(replacement_, space, space + 1);
    }
    if ((always_ || (first_ && piece.isFirst)) && !changed.piece().text.starts_with(replacement_))
      changed.prepend(replacement_);
    const TextPiece whole = changed.piece();
    if (!splits_)
      return sink(whole);
    TextParts parts(whole.text.size());
    for (size_t at = whole.text.find(replacement_); at != std::string::npos;
         at = whole.text.find(replacement_, at + replacement_.size()))
      parts.addMatch(at, at + replacement_.size());
    return sendParts(whole, parts.merged(SplitBehavior::mergedWithNext, false), sink);
  }

private:
  std::string replacement_;
  bool splits_ = true, always_ = false, first_ = false;
};

class PreTokenizerSequence final : public PreTokenizer {
public:
  static Made make(const JsonPlace &json) {
    auto sequence = std::make_unique<PreTokenizerSequence>();
    const JsonPlace parts = json["pretokenizers"];
    for (size_t i = 0; i < parts.size(); ++i) {
      MGC_ASSIGN(part, makePreTokenizer(parts[i]));
      if (!part)
        continue;
      if (sequence->givesBytes())
        return errorf("{}: stands behind ByteLevel, expected that as the last", parts[i].where());
      sequence->parts_.push_back(std::move(part));
    }
    return std::unique_ptr<PreTokenizer>(std::move(sequence));
  }
  Status split(const TextPiece &piece, const PieceSink &sink) const override { return splitFrom(0, piece, sink); }
  bool givesBytes() const override { return !parts_.empty() && parts_.back()->givesBytes(); }

private:
  Status splitFrom(size_t part, const TextPiece &piece, const PieceSink &sink) const {
    if (part == parts_.size())
      return sink(piece);
    if (part + 1 == parts_.size())
      return parts_[part]->split(piece, sink);
    return parts_[part]->split(piece, [&](const TextPiece &inner) { return splitFrom(part + 1, inner, sink); });
  }
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

struct PreTokenizerRow {
  std::string_view name;
  Made (*make)(const JsonPlace &json);
};
constexpr PreTokenizerRow kPreTokenizers[] = {
    {"Sequence", PreTokenizerSequence::make},
    {"ByteLevel", BytePreTokenizer::make},
    {"Split", SplitPreTokenizer::make},
    {"Metaspace", MetaspacePreTokenizer::make},
    {"Whitespace", PlainPreTokenizer::make<splitWordsAndSigns>},
    {"WhitespaceSplit", PlainPreTokenizer::make<splitAtWhitespace>},
    {"BertPreTokenizer", PlainPreTokenizer::make<splitAsBert>},
    {"Punctuation", PunctuationPreTokenizer::make},
    {"Digits", DigitsPreTokenizer::make},
};

} // namespace

Made makePreTokenizer(const JsonPlace &json) {
  if (json.isNull())
    return std::unique_ptr<PreTokenizer>();
  MGC_ASSIGN(type, json.type());
  MGC_ASSIGN(row, rowOf(json, type, kPreTokenizers, "pre-tokenizer"));
  return row->make(json);
}

} // namespace mgc
