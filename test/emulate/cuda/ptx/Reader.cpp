#include "test/emulate/cuda/ptx/Parser.h"

#include <charconv>
#include <cstring>

namespace mgc::ptx {

bool Reader::take(std::string_view text) {
  if (!peek().is(text))
    return false;
  next();
  return true;
}

Status Reader::unexpected(std::string_view wanted) const {
  const Token &token = peek();
  return errorf("line {}: found \"{}\" where {} should be", token.line,
                token.kind == Token::end ? "the end of the text" : token.text, wanted);
}

Status Reader::expect(std::string_view text) {
  return take(text) ? Status::ok() : unexpected(fmt::format("\"{}\"", text));
}

void Reader::skipLine() {
  for (uint32_t line = peek().line; peek().kind != Token::end && peek().line == line;)
    next();
}

Status Reader::skipBraces() {
  MGC_TRY(expect("{"));
  for (int depth = 1; depth > 0;) {
    if (peek().kind == Token::end)
      return unexpected("a closing brace");
    Token token = next();
    depth += token.is("{") - token.is("}");
  }
  return Status::ok();
}

void Reader::skipStatement() {
  while (peek().kind != Token::end && !next().is(";"))
    ;
}

unsigned bitsOfType(std::string_view type) {
  if (type == ".pred")
    return 1;
  if (type.size() < 3 || std::string_view("bsuf").find(type[1]) == type.npos)
    return 0;
  std::string_view digits = type.substr(type.starts_with(".bf") ? 3 : 2);
  unsigned bits = 0, times = 1;
  if (size_t x = digits.find('x'); x != digits.npos) {
    times = digits.substr(x + 1) == "2" ? 2 : 0;
    digits = digits.substr(0, x);
  }
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  bool isWidth = bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128;
  return error == std::errc() && end == digits.data() + digits.size() && isWidth ? bits * times : 0;
}

Result<uint64_t> parseLiteral(const Token &token) {
  std::string_view text = token.text;
  int base = 10;
  if (text.size() > 2 && text[0] == '0') {
    char kind = text[1] | 0x20;
    base = kind == 'x' || kind == 'f' || kind == 'd' ? 16 : kind == 'b' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  uint64_t bits = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, base);
  std::string_view rest(end, text.data() + text.size() - end);
  if (token.kind != Token::number || error != std::errc() || !(rest.empty() || rest == "U"))
    return errorf("line {}: \"{}\" is no number", token.line, token.text);
  return bits;
}

std::string_view Text::line(uint32_t number) const {
  size_t begin = 0;
  for (; number > 1 && begin != std::string::npos; --number)
    begin = source.find('\n', begin) + 1;
  std::string_view text = std::string_view(source).substr(begin, source.find('\n', begin) - begin);
  size_t first = text.find_first_not_of(" \t{"), last = text.find_last_not_of(" \t\r}");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

} // namespace mgc::ptx
