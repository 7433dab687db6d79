// See Normalizers.h.
#include "runtime/tokenizers/Normalizers.h"

#include "runtime/tokenizers/OnigPattern.h"
#include "runtime/tokenizers/PrecompiledMap.h"
#include "runtime/tokenizers/Unicode.h"

#include <vector>

namespace mgc {

namespace {

using Made = Result<std::unique_ptr<TextNormalizer>>;

template <typename Change> void rewrite(TrackedText &text, const Change &change) {
  TextRewrite changed(text);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    change(unicode::next(text.view(), at), changed.out());
    changed.comesFrom(begin, at);
  }
  changed.finish();
}

template <typename Drops> void dropIf(TrackedText &text, const Drops &drops) {
  rewrite(text, [&](char32_t c, std::string &out) {
    if (!drops(c))
      unicode::append(out, c);
  });
}

void lower(TrackedText &text) {
  rewrite(text, [](char32_t c, std::string &out) { unicode::appendLower(out, c); });
}

// --- A sequence, and what takes a function alone ----------------------------------------------------------------

class NormalizerSequence final : public TextNormalizer {
public:
  static Made make(const JsonPlace &json) {
    auto sequence = std::make_unique<NormalizerSequence>();
    const JsonPlace parts = json["normalizers"];
    for (size_t i = 0; i < parts.size(); ++i) {
      MGC_ASSIGN(part, makeNormalizer(parts[i]));
      if (part)
        sequence->parts_.push_back(std::move(part));
    }
    return std::unique_ptr<TextNormalizer>(std::move(sequence));
  }
  Status apply(TrackedText &text) const override {
    for (const auto &part : parts_)
      MGC_TRY(part->apply(text));
    return Status::ok();
  }

private:
  std::vector<std::unique_ptr<TextNormalizer>> parts_;
};

class PlainNormalizer final : public TextNormalizer {
public:
  using Function = void (*)(TrackedText &text);
  explicit PlainNormalizer(Function function) : function_(function) {}
  template <Function function> static Made make(const JsonPlace &) {
    return std::unique_ptr<TextNormalizer>(std::make_unique<PlainNormalizer>(function));
  }
  Status apply(TrackedText &text) const override {
    function_(text);
    return Status::ok();
  }

private:
  Function function_;
};

void toForm(TrackedText &text, unicode::Form form) {
  if (unicode::isAscii(text.view()))
    return;
  TextRewrite changed(text);
  unicode::normalize(text.view(), form, [&](size_t begin, size_t end, std::optional<std::string_view> other) {
    if (!other)
      return changed.copy(begin, end);
    changed.out() += *other;
    changed.comesFrom(begin, end);
  });
  changed.finish();
}
template <unicode::Form form> void toForm(TrackedText &text) { toForm(text, form); }

void stripMarks(TrackedText &text) { dropIf(text, unicode::isMark); }

// sentencepiece's rules of nmt.
void applyNmt(TrackedText &text) {
  dropIf(text, [](char32_t c) {
    return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  });
  rewrite(text, [](char32_t c, std::string &out) {
    const bool isSpace = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    unicode::append(out, isSpace ? U' ' : c);
  });
}

// --- Normalizers with fields ------------------------------------------------------------------------------------

class PrependNormalizer final : public TextNormalizer {
public:
  static Made make(const JsonPlace &json) {
    auto prepend = std::make_unique<PrependNormalizer>();
    MGC_ASSIGN(text, json["prepend"].text());
    prepend->text_ = std::move(text);
    return std::unique_ptr<TextNormalizer>(std::move(prepend));
  }
  Status apply(TrackedText &text) const override {
    if (text.size() == 0)
      return Status::ok();
    TextRewrite changed(text);
    changed.out() += text_;
    changed.comesFrom(0, unicode::lengthAt(text.view(), 0));
    changed.copy(0, text.size());
    changed.finish();
    return Status::ok();
  }

private:
  std::string text_;
};

class ReplaceNormalizer final : public TextNormalizer {
public:
  ReplaceNormalizer(OnigPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  static Made make(const JsonPlace &json) {
    MGC_ASSIGN(content, json["content"].text());
    const JsonPlace pattern = json["pattern"];
    const bool isPlain = !pattern["String"].isNull();
    MGC_ASSIGN(text, pattern[isPlain ? "String" : "Regex"].text());
    MGC_ASSIGN(compiled, OnigPattern::compile(isPlain ? OnigPattern::quoted(text) : text, json.where()));
    return std::unique_ptr<TextNormalizer>(
        std::make_unique<ReplaceNormalizer>(std::move(compiled), std::move(content)));
  }
  Status apply(TrackedText &text) const override {
    TextRewrite changed(text);
    size_t done = 0;
    MGC_TRY(pattern_.forEach(text.view(), [&](size_t begin, size_t end) {
      changed.copy(done, begin);
      changed.out() += content_;
      changed.comesFrom(begin, end);
      done = end;
      return Status::ok();
    }));
    changed.copy(done, text.size());
    changed.finish();
    return Status::ok();
  }

private:
  OnigPattern pattern_;
  std::string content_;
};

class StripNormalizer final : public TextNormalizer {
public:
  static Made make(const JsonPlace &json) {
    auto strip = std::make_unique<StripNormalizer>();
    MGC_ASSIGN(left, json["strip_left"].flag(true));
    MGC_ASSIGN(right, json["strip_right"].flag(true));
    strip->left_ = left, strip->right_ = right;
    return std::unique_ptr<TextNormalizer>(std::move(strip));
  }
  Status apply(TrackedText &text) const override {
    size_t begin = 0, end = text.size();
    for (size_t at = 0; left_ && at < text.size() && unicode::isWhitespace(unicode::next(text.view(), at));)
      begin = at;
    for (size_t at = end; right_ && at > begin && unicode::isWhitespace(unicode::previous(text.view(), at));)
      end = at;
    TextRewrite changed(text);
    changed.copy(begin, end);
    changed.finish();
    return Status::ok();
  }

private:
  bool left_ = true, right_ = true;
};

class BertNormalizer final : public TextNormalizer {
public:
  static Made make(const JsonPlace &json) {
    auto bert = std::make_unique<BertNormalizer>();
    MGC_ASSIGN(cleans, json["clean_text"].flag(true));
    MGC_ASSIGN(pads, json["handle_chinese_chars"].flag(true));
    MGC_ASSIGN(lowers, json["lowercase"].flag(true));
    MGC_ASSIGN(strips, json["strip_accents"].flag(lowers));
    bert->cleans_ = cleans, bert->padsIdeographs_ = pads, bert->lowers_ = lowers, bert->strips_ = strips;
    return std::unique_ptr<TextNormalizer>(std::move(bert));
  }
  Status apply(TrackedText &text) const override {
    if (cleans_)
      clean(text);
    if (padsIdeographs_)
      pad(text);
    if (strips_) {
      toForm(text, unicode::Form::nfd);
      dropIf(text, unicode::isNonspacingMark);
    }
    if (lowers_)
      lower(text);
    return Status::ok();
  }

private:
  static void clean(TrackedText &text) {
    const auto isSpace = [](char32_t c) { return unicode::isWhitespace(c); };
    dropIf(text, [](char32_t c) {
      return c == 0 || c == 0xFFFD || (c != '\t' && c != '\n' && c != '\r' && unicode::isControl(c));
    });
    rewrite(text, [&](char32_t c, std::string &out) { unicode::append(out, isSpace(c) ? U' ' : c); });
  }
  static bool isIdeograph(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }
  static void pad(TrackedText &text) {
    rewrite(text, [](char32_t c, std::string &out) {
      if (isIdeograph(c))
        out += ' ';
      unicode::append(out, c);
      if (isIdeograph(c))
        out += ' ';
    });
  }
  bool cleans_ = true, padsIdeographs_ = true, lowers_ = true, strips_ = true;
};

// A grapheme cluster of fewer than 6 bytes is looked up whole, then each of its characters.
class PrecompiledNormalizer final : public TextNormalizer {
public:
  explicit PrecompiledNormalizer(PrecompiledMap map) : map_(std::move(map)) {}
  static Made make(const JsonPlace &json) {
    const JsonPlace field = json["precompiled_charsmap"];
    if (field.isNull())
      return std::unique_ptr<TextNormalizer>();
    MGC_ASSIGN(text, field.text());
    MGC_ASSIGN(map, PrecompiledMap::parse(text).at(field.where()));
    return std::unique_ptr<TextNormalizer>(std::make_unique<PrecompiledNormalizer>(std::move(map)));
  }
  Status apply(TrackedText &text) const override {
    TextRewrite changed(text);
    unicode::Graphemes graphemes(text.view());
    for (size_t at = 0; at < text.size();) {
      const size_t end = graphemes.endAfter(at);
      const std::string_view cluster = text.view().substr(at, end - at);
      const auto whole = cluster.size() < 6 ? map_.find(cluster) : std::nullopt;
      if (whole)
        changed.out() += *whole;
      for (size_t inside = 0; !whole && inside < cluster.size();) {
        const std::string_view part = cluster.substr(inside, unicode::lengthAt(cluster, inside));
        changed.out() += map_.find(part).value_or(part);
        inside += part.size();
        changed.comesFrom(at + inside - part.size(), at + inside);
      }
      changed.comesFrom(at, end);
      at = end;
    }
    changed.finish();
    return Status::ok();
  }

private:
  PrecompiledMap map_;
};

struct NormalizerRow {
  std::string_view name;
  Made (*make)(const JsonPlace &json);
};
constexpr NormalizerRow kNormalizers[] = {
    {"Sequence", NormalizerSequence::make},
    {"NFC", PlainNormalizer::make<toForm<unicode::Form::nfc>>},
    {"NFD", PlainNormalizer::make<toForm<unicode::Form::nfd>>},
    {"NFKC", PlainNormalizer::make<toForm<unicode::Form::nfkc>>},
    {"NFKD", PlainNormalizer::make<toForm<unicode::Form::nfkd>>},
    {"Lowercase", PlainNormalizer::make<lower>},
    {"StripAccents", PlainNormalizer::make<stripMarks>},
    {"Nmt", PlainNormalizer::make<applyNmt>},
    {"Prepend", PrependNormalizer::make},
    {"Replace", ReplaceNormalizer::make},
    {"Strip", StripNormalizer::make},
    {"BertNormalizer", BertNormalizer::make},
    {"Precompiled", PrecompiledNormalizer::make},
};

} // namespace

Made makeNormalizer(const JsonPlace &json) {
  if (json.isNull())
    return std::unique_ptr<TextNormalizer>();
  MGC_ASSIGN(type, json.type());
  MGC_ASSIGN(row, rowOf(json, type, kNormalizers, "normalizer"));
  return row->make(json);
}

} // namespace mgc
