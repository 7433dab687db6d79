// See JsonLine.h.
#include "runtime/data/preprocess/JsonLine.h"

#include "runtime/base/Json.h"
#include "runtime/base/Utf8.h"

#include <algorithm>

namespace mgc {

namespace {

constexpr int kDeepest = 512;

class LineScanner {
public:
  explicit LineScanner(std::string_view line) : line_(line) {}

  Status readObject(const std::vector<std::string> &keys, std::string_view remedy, std::vector<LineTexts> &texts) {
    texts.assign(keys.size(), {});
    std::vector<bool> found(keys.size());
    skipSpace();
    MGC_TRY(expect('{'));
    skipSpace();
    std::string name, others; // others: names that are no keys
    for (bool isFirst = true; !take('}'); isFirst = false) {
      if (!isFirst)
        MGC_TRY(expect(','));
      skipSpace();
      MGC_TRY(readString(&name));
      skipSpace();
      MGC_TRY(expect(':'));
      skipSpace();
      const auto key = std::ranges::find(keys, name);
      if (key == keys.end()) {
        others += fmt::format("{}\"{}\"", others.empty() ? ", but " : ", ", name);
        MGC_TRY(skipValue(1));
      } else {
        found[static_cast<size_t>(key - keys.begin())] = true;
        MGC_TRY(readTexts(name, texts[static_cast<size_t>(key - keys.begin())]));
      }
      skipSpace();
    }
    skipSpace();
    if (at_ != line_.size())
      return fail("nothing behind the object");
    for (size_t i = 0; i < keys.size(); ++i)
      if (!found[i])
        return errorf("has no \"{}\"{}; {}", keys[i], printable(others), remedy);
    return Status::ok();
  }

private:
  Status fail(std::string_view expected) const {
    return errorf("byte {}: {}, expected {}", at_,
                  at_ < line_.size() ? fmt::format("\"{}\"", printable(line_.substr(at_, 12))) : "the line ends",
                  expected);
  }
  void skipSpace() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\n' || line_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    const bool isThere = at_ < line_.size() && line_[at_] == c;
    at_ += isThere;
    return isThere;
  }
  bool takeWord(std::string_view word) {
    const bool isThere = line_.substr(at_).starts_with(word);
    at_ += isThere ? word.size() : 0;
    return isThere;
  }
  Status expect(char c) { return take(c) ? Status::ok() : fail(std::string_view(&c, 1)); }

  Status readTexts(const std::string &key, LineTexts &texts) {
    texts.clear();
    const auto readOne = [&] {
      if (at_ >= line_.size() || line_[at_] != '"')
        return fail(fmt::format("a text, or a list of texts, of \"{}\"", key));
      return readString(&texts.emplace_back());
    };
    if (!take('['))
      return readOne();
    skipSpace();
    for (bool isFirst = true; !take(']'); isFirst = false) {
      if (!isFirst)
        MGC_TRY(expect(','));
      skipSpace();
      MGC_TRY(readOne());
      skipSpace();
    }
    return Status::ok();
  }

  // Null: it is only checked.
  Status readString(std::string *out) {
    if (out)
      out->clear();
    if (!take('"'))
      return fail("a text in quotation marks");
    while (true) {
      const size_t begin = at_;
      while (at_ < line_.size() && line_[at_] != '"' && line_[at_] != '\\' &&
             static_cast<unsigned char>(line_[at_]) >= 0x20)
        ++at_;
      if (out)
        out->append(line_, begin, at_ - begin);
      if (take('"'))
        return Status::ok();
      if (!take('\\'))
        return fail("a text to end, without control characters");
      MGC_TRY(readEscape(out));
    }
  }

  Status readEscape(std::string *out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
    const size_t kind = at_ < line_.size() ? kNames.find(line_[at_]) : std::string_view::npos;
    if (kind != std::string_view::npos) {
      ++at_;
      if (out)
        *out += kCharacters[kind];
      return Status::ok();
    }
    uint32_t unit = 0;
    MGC_TRY(readUnit(unit));
    if (unit >= 0xD800 && unit < 0xDC00) {
      uint32_t low = 0;
      if (!take('\\'))
        return fail("the second half of a surrogate pair");
      MGC_TRY(readUnit(low));
      if (low < 0xDC00 || low > 0xDFFF)
        return fail("the second half of a surrogate pair before this");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xDC00 && unit < 0xE000) {
      return fail("the first half of a surrogate pair before this");
    }
    if (out)
      appendUtf8(*out, unit);
    return Status::ok();
  }

  Status readUnit(uint32_t &unit) {
    if (!take('u'))
      return fail("an escape sequence");
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < line_.size() ? line_[at_] : ' ';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0)
        return fail("four hexadecimal digits");
      unit = unit << 4 | static_cast<uint32_t>(digit);
    }
    return Status::ok();
  }

  static void appendUtf8(std::string &out, uint32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
      return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i)
      out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
  }

  Status skipValue(int depth) {
    if (depth > kDeepest)
      return fail(fmt::format("at most {} values inside each other", kDeepest));
    const char c = at_ < line_.size() ? line_[at_] : ' ';
    if (c == '"')
      return readString(nullptr);
    if (c == '{' || c == '[')
      return skipNested(c == '{', depth);
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
      if (takeWord(word))
        return Status::ok();
    return skipNumber();
  }

  Status skipNested(bool isObject, int depth) {
    const char end = isObject ? '}' : ']';
    ++at_;
    skipSpace();
    for (bool isFirst = true; !take(end); isFirst = false) {
      if (!isFirst)
        MGC_TRY(expect(','));
      skipSpace();
      if (isObject) {
        MGC_TRY(readString(nullptr));
        skipSpace();
        MGC_TRY(expect(':'));
        skipSpace();
      }
      MGC_TRY(skipValue(depth + 1));
      skipSpace();
    }
    return Status::ok();
  }

  bool skipDigits() {
    const size_t begin = at_;
    while (at_ < line_.size() && line_[at_] >= '0' && line_[at_] <= '9')
      ++at_;
    return at_ > begin;
  }
  Status skipNumber() {
    take('-');
    if (!take('0') && !skipDigits())
      return fail("a value");
    if (take('.') && !skipDigits())
      return fail("digits");
    if (take('e') || take('E')) {
      take('+') || take('-');
      if (!skipDigits())
        return fail("digits");
    }
    return Status::ok();
  }

  std::string_view line_;
  size_t at_ = 0;
};

} // namespace

Status readJsonLine(std::string_view line, const std::vector<std::string> &keys, std::string_view remedy,
                    std::vector<LineTexts> &texts) {
  if (const auto at = firstInvalidUtf8(line))
    return errorf("byte {}: {:#04x} is not UTF-8", *at, static_cast<unsigned char>(line[*at]));
  if (line.starts_with("\xEF\xBB\xBF"))
    return errorf("begins with a byte order mark, expected {{");
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return errorf("is blank, expected an object");
  return LineScanner(line).readObject(keys, remedy, texts);
}

} // namespace mgc
