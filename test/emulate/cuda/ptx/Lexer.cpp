#include "test/emulate/cuda/ptx/Lexer.h"

#include <algorithm>
#include <cctype>

namespace mgc::ptx {
namespace {

bool isWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    for (skipBlanks(); at_ < text_.size(); skipBlanks()) {
      char c = text_[at_];
      if (std::isdigit(static_cast<unsigned char>(c)))
        take(Token::number, numberEnd());
      else if (isWordChar(c))
        take(Token::word, wordEnd());
      else if (c == '"')
        MGC_TRY(takeString());
      else
        take(Token::mark, at_ + 1);
    }
    tokens_.push_back({Token::end, {}, line_});
    return std::move(tokens_);
  }

private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skipBlanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '/' && peek(1) == '/')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (text_[at_] == '/' && peek(1) == '*')
        skipTo(std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 2);
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '\0')
        skipTo(at_ + 1);
      else
        return;
    }
  }

  void skipTo(size_t end) {
    line_ += std::count(text_.begin() + at_, text_.begin() + end, '\n');
    at_ = end;
  }

  size_t wordEnd() const {
    size_t end = at_;
    while (end < text_.size()) {
      if (isWordChar(text_[end]))
        ++end;
      else if (text_.substr(end, 2) == "::") // as in .L1::evict_last
        end += 2;
      else
        break;
    }
    return end;
  }

  size_t numberEnd() const {
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && isExponent(end - 1))))
      ++end;
    return end;
  }

  // 1.5e-3, but not 0x3e-1.
  bool isExponent(size_t at) const {
    std::string_view number = text_.substr(at_, at - at_);
    return (text_[at] == 'e' || text_[at] == 'E') && number.find('.') != number.npos;
  }

  void take(Token::Kind kind, size_t end) {
    tokens_.push_back({kind, text_.substr(at_, end - at_), line_});
    at_ = end;
  }

  Status takeString() {
    size_t end = text_.find('"', at_ + 1);
    if (end == text_.npos)
      return errorf("line {}: a string does not end", line_);
    tokens_.push_back({Token::string, text_.substr(at_ + 1, end - at_ - 1), line_});
    skipTo(end + 1);
    return Status::ok();
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  std::vector<Token> tokens_;
};

} // namespace

Result<std::vector<Token>> lex(std::string_view text) { return Lexer(text).run(); }

} // namespace mgc::ptx
