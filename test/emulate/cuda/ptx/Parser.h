// The declarations of a PTX text. Bodies of functions stay tokens, which Encoder reads.
#pragma once

#include "test/emulate/cuda/ptx/Lexer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

namespace mgc::ptx {

// Walks over tokens. Errors name the line.
class Reader {
public:
  Reader(const std::vector<Token> &tokens, size_t at) : tokens_(tokens), at_(at) {}
  const Token &peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  size_t position() const { return at_; }
  bool take(std::string_view text);
  Status expect(std::string_view text);
  // Behind the last token of this line, or behind the brace or semicolon that closes what begins here.
  void skipLine();
  Status skipBraces();
  void skipStatement();
  Status unexpected(std::string_view wanted) const;

private:
  const std::vector<Token> &tokens_;
  size_t at_;
};

struct Relocation {
  uint64_t at;
  std::string_view symbol;
  int64_t addend;
};

struct Variable {
  std::string_view name;
  std::string_view space; // ".global", ".const", ".shared", ".local" or ".param"
  uint32_t align = 1;
  uint64_t bytes = 0; // 0: an array without size
  bool isExtern = false;
  std::vector<std::byte> initial; // zeros behind its end
  std::vector<Relocation> relocations;
};

struct Function {
  std::string_view name;
  bool isEntry = false;
  uint32_t maxThreads = 1024;
  std::vector<Variable> results, parameters;
  size_t body = 0; // the token behind its opening brace; 0: declared only
};

struct Text {
  std::string source;
  std::vector<Token> tokens;
  int target = 0;
  std::vector<Variable> variables;
  std::map<std::string_view, Function> functions;

  std::string_view line(uint32_t number) const;
};

Result<std::unique_ptr<Text>> parse(std::string_view source);
// `.space .align N .type name[N] = ..;` from behind the linkage: one or several variables.
Result<std::vector<Variable>> parseVariables(Reader &reader);
// Bits of a type: 32 for .f32; 0 for what is no type.
unsigned bitsOfType(std::string_view type);
// The bits of an integer or an 0f, 0d literal.
Result<uint64_t> parseLiteral(const Token &token);

} // namespace mgc::ptx
