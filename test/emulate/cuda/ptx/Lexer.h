// Splits PTX text into tokens. A word is a directive, an opcode with its modifiers, a register, a symbol or a label.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace mgc::ptx {

struct Token {
  enum Kind : uint8_t { word, number, string, mark, end } kind = end;
  std::string_view text;
  uint32_t line = 0;
  bool is(std::string_view other) const { return text == other && kind != string; }
};

// The tokens of the text, and an `end` token behind them. They point into the text.
Result<std::vector<Token>> lex(std::string_view text);

} // namespace mgc::ptx
