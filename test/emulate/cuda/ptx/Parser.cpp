#include "test/emulate/cuda/ptx/Parser.h"

#include <charconv>
#include <cstring>

namespace mgc::ptx {
namespace {

bool isSpace(const Token &token) {
  for (const char *space : {".global", ".const", ".shared", ".local", ".param"})
    if (token.is(space))
      return true;
  return false;
}

Result<uint64_t> parseCount(Reader &reader) {
  MGC_ASSIGN(value, parseLiteral(reader.peek()));
  reader.next();
  return value;
}

// The elements of an initialiser, `bytes` each, nested lists in order.
class Initialiser {
public:
  Initialiser(Reader &reader, Variable &variable, unsigned bytes)
      : reader_(reader), variable_(variable), bytes_(bytes) {}

  Status parse() {
    if (!reader_.take("{"))
      return element();
    do
      MGC_TRY(parse());
    while (reader_.take(","));
    return reader_.expect("}");
  }

private:
  Status element() {
    bool negative = reader_.take("-");
    if (reader_.peek().kind == Token::number) {
      MGC_ASSIGN(bits, parseCount(reader_));
      append(negative ? 0 - bits : bits);
      return Status::ok();
    }
    bool isGeneric = reader_.take("generic");
    if (isGeneric)
      MGC_TRY(reader_.expect("("));
    if (reader_.peek().kind != Token::word || bytes_ != 8)
      return reader_.unexpected("a number, or a symbol in an array of .b64");
    variable_.relocations.push_back({variable_.initial.size(), reader_.next().text, 0});
    if (isGeneric)
      MGC_TRY(reader_.expect(")"));
    if (reader_.take("+")) {
      MGC_ASSIGN(addend, parseCount(reader_));
      variable_.relocations.back().addend = static_cast<int64_t>(addend);
    }
    append(0);
    return Status::ok();
  }

  void append(uint64_t bits) {
    size_t at = variable_.initial.size();
    variable_.initial.resize(at + bytes_);
    std::memcpy(variable_.initial.data() + at, &bits, bytes_);
  }

  Reader &reader_;
  Variable &variable_;
  unsigned bytes_;
};

// `name [N][M] = ..`, behind the type.
Status parseDeclarator(Reader &reader, Variable &variable, uint64_t elementBytes) {
  if (reader.peek().kind != Token::word)
    return reader.unexpected("the name of a variable");
  variable.name = reader.next().text;
  variable.bytes = elementBytes;
  while (reader.take("[")) {
    uint64_t count = 0;
    if (!reader.peek().is("]"))
      MGC_SET(count, parseCount(reader));
    variable.bytes *= count;
    MGC_TRY(reader.expect("]"));
  }
  if (reader.take("=")) {
    MGC_TRY(Initialiser(reader, variable, elementBytes).parse());
    variable.bytes = std::max<uint64_t>(variable.bytes, variable.initial.size());
  }
  return Status::ok();
}

// `.ptr .space .align N` of a parameter says nothing that is needed here.
Status skipPointerAttributes(Reader &reader) {
  if (!reader.take(".ptr"))
    return Status::ok();
  if (isSpace(reader.peek()))
    reader.next();
  if (reader.take(".align"))
    reader.next();
  return Status::ok();
}

} // namespace

Result<std::vector<Variable>> parseVariables(Reader &reader) {
  Variable common;
  common.space = reader.next().text;
  unsigned bits = 0, vector = 1;
  bool aligned = false;
  for (; bits == 0; reader.next()) {
    if (reader.peek().is(".align")) {
      reader.next();
      MGC_ASSIGN(align, parseLiteral(reader.peek()));
      common.align = static_cast<uint32_t>(align);
      aligned = true;
    } else if (reader.peek().is(".v2") || reader.peek().is(".v4")) {
      vector = reader.peek().text[2] - '0';
    } else if ((bits = bitsOfType(reader.peek().text)) == 0) {
      return reader.unexpected("a type");
    }
  }
  uint64_t bytes = std::max(1u, bits / 8) * vector;
  if (!aligned)
    common.align = static_cast<uint32_t>(bytes);
  MGC_TRY(skipPointerAttributes(reader));
  std::vector<Variable> variables;
  do {
    variables.push_back(common);
    MGC_TRY(parseDeclarator(reader, variables.back(), bytes));
  } while (!common.space.ends_with("param") && reader.take(","));
  return variables;
}

namespace {

class Parser {
public:
  explicit Parser(Text &text) : text_(text), reader_(text.tokens, 0) {}

  Status run() {
    while (reader_.peek().kind != Token::end)
      MGC_TRY(parseDirective());
    if (text_.target == 0)
      return Status::error("there is no .target line");
    return Status::ok();
  }

private:
  Status parseDirective() {
    bool isExtern = false;
    for (;; reader_.next()) {
      if (reader_.peek().is(".extern"))
        isExtern = true;
      else if (!reader_.peek().is(".visible") && !reader_.peek().is(".weak") && !reader_.peek().is(".common"))
        break;
    }
    const Token &token = reader_.peek();
    if (token.is(".entry") || token.is(".func"))
      return parseFunction();
    if (isSpace(token))
      return parseGlobals(isExtern);
    if (token.is(".target"))
      return parseTarget();
    if (token.is(".section"))
      return parseSection();
    if (token.is(".pragma"))
      return reader_.skipStatement(), Status::ok();
    for (const char *name : {".version", ".address_size", ".file", ".loc"})
      if (token.is(name))
        return reader_.skipLine(), Status::ok();
    return reader_.unexpected("a directive, a variable, .func or .entry");
  }

  Status parseTarget() {
    reader_.next();
    std::string_view name = reader_.peek().text;
    if (!name.starts_with("sm_"))
      return reader_.unexpected("a target such as sm_90");
    std::from_chars(name.data() + 3, name.data() + name.size(), text_.target);
    reader_.skipLine();
    return Status::ok();
  }

  Status parseSection() {
    while (reader_.peek().kind != Token::end && !reader_.peek().is("{"))
      reader_.next();
    return reader_.skipBraces();
  }

  Status parseGlobals(bool isExtern) {
    MGC_ASSIGN(variables, parseVariables(reader_));
    for (Variable &variable : variables) {
      variable.isExtern = isExtern;
      text_.variables.push_back(variable);
    }
    return reader_.expect(";");
  }

  Status parseParameters(std::vector<Variable> &parameters) {
    if (!reader_.take("("))
      return Status::ok();
    while (!reader_.take(")")) {
      if (!reader_.peek().is(".param"))
        return reader_.unexpected(".param");
      MGC_ASSIGN(parameter, parseVariables(reader_));
      parameters.push_back(parameter.front());
      reader_.take(",");
    }
    return Status::ok();
  }

  // .maxntid 256, 1, 1 and its like, up to the body or the semicolon of a declaration.
  Status parseAttributes(Function &function) {
    while (!reader_.peek().is("{") && !reader_.peek().is(";")) {
      if (reader_.peek().kind == Token::end)
        return reader_.unexpected("the body of a function");
      Token name = reader_.next();
      uint64_t product = 1;
      for (; reader_.peek().kind == Token::number; reader_.take(",")) {
        MGC_ASSIGN(value, parseCount(reader_));
        product *= value;
      }
      if (name.is(".maxntid") || name.is(".reqntid"))
        function.maxThreads = static_cast<uint32_t>(product);
    }
    return Status::ok();
  }

  Status parseFunction() {
    Function function;
    function.isEntry = reader_.next().is(".entry");
    MGC_TRY(parseParameters(function.results));
    function.name = reader_.next().text;
    MGC_TRY(parseParameters(function.parameters));
    MGC_TRY(parseAttributes(function));
    if (!reader_.take(";")) {
      function.body = reader_.position() + 1;
      MGC_TRY(reader_.skipBraces());
    }
    Function &known = text_.functions[function.name];
    if (known.body && function.body)
      return errorf("line {}: {} is defined twice", text_.tokens[function.body].line, function.name);
    if (!known.body)
      known = std::move(function);
    return Status::ok();
  }

  Text &text_;
  Reader reader_;
};

} // namespace

Result<std::unique_ptr<Text>> parse(std::string_view source) {
  auto text = std::make_unique<Text>();
  text->source = source;
  MGC_SET(text->tokens, lex(text->source));
  MGC_TRY(Parser(*text).run());
  return text;
}

} // namespace mgc::ptx
