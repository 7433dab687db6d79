#include "test/emulate/cuda/ptx/Encoder.h"

#include <algorithm>
#include <bit>

namespace mgc::ptx {
namespace {

uint64_t roundUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

// Width of a special register; 0: there is none of that name.
unsigned specialBits(std::string_view name) {
  for (const char *vector : {"%tid.", "%ntid.", "%ctaid.", "%nctaid."})
    if (name.size() == std::string_view(vector).size() + 1 && name.starts_with(vector) && name.back() >= 'x' &&
        name.back() <= 'z')
      return 32;
  for (const char *scalar : {"%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%lanemask_eq", "%lanemask_lt",
                             "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size", "%total_smem_size"})
    if (name == scalar)
      return 32;
  return 0;
}

} // namespace

Encoder::Encoder(const Text &text, const std::map<std::string, Region, std::less<>> &globals)
    : text_(text), globals_(globals) {}

Status Encoder::error(std::string what) const { return errorf("line {}: {} ({})", line_, what, text_.line(line_)); }

Result<std::unique_ptr<Program>> Encoder::encode(const Function &entry) {
  program_ = std::make_unique<Program>();
  program_->name = entry.name;
  program_->text = &text_;
  program_->info.maxThreads = std::min(entry.maxThreads, 1024u);
  carry_ = allocate(1);
  MGC_TRY(encodeFunction(entry));
  KernelInfo &info = program_->info;
  info.sharedBytes = roundUp(info.sharedBytes, 16);
  info.localBytes = roundUp(info.localBytes, 16);
  for (size_t index : behindStatic_)
    program_->constants[index].bits += info.sharedBytes;
  return std::move(program_);
}

// The callees come first, so that the lanes that wait behind a call have the higher place in the program.
Status Encoder::encodeCallees(const Function &function) {
  Reader reader(text_.tokens, function.body);
  for (int depth = 1; depth > 0;) {
    Token token = reader.next();
    depth += token.is("{") - token.is("}");
    auto callee = text_.functions.find(token.text);
    if (token.kind != Token::word || callee == text_.functions.end() || !callee->second.body || callee->second.isEntry)
      continue;
    line_ = token.line;
    if (open_.count(token.text))
      return error(fmt::format("{} calls itself; recursion is not supported", token.text));
    if (!frames_.count(token.text))
      MGC_TRY(encodeFunction(callee->second));
  }
  return Status::ok();
}

void Encoder::declareParameters(const Function &function, Scope &scope, Frame &frame) {
  KernelInfo &info = program_->info;
  for (const Variable &parameter : function.parameters) {
    if (function.isEntry) {
      uint32_t at = roundUp(info.parameterBytes, parameter.align);
      info.parameters.push_back({at, static_cast<uint32_t>(parameter.bytes)});
      info.parameterBytes = at + parameter.bytes;
      scope.addresses[parameter.name] = generic(inParameters, at);
    } else {
      frame.parameters.push_back(scope.addresses[parameter.name] = allocateLocal(parameter));
    }
  }
  for (const Variable &result : function.results)
    frame.results.push_back(scope.addresses[result.name] = allocateLocal(result));
}

Status Encoder::encodeFunction(const Function &function) {
  open_.insert(function.name);
  MGC_TRY(encodeCallees(function));
  open_.erase(function.name);
  Frame &frame = frames_[function.name];
  frame.entry = program_->ops.size();
  frame.returnTo = allocate(32);
  scopes_.assign(1, {});
  declareParameters(function, scopes_.back(), frame);
  frame_ = function.isEntry ? nullptr : &frame;
  if (function.isEntry)
    program_->entry = frame.entry;
  labels_.clear();
  tables_.clear();
  Reader reader(text_.tokens, function.body);
  MGC_TRY(encodeBody(reader));
  Instruction end;
  guard_ = kNone;
  MGC_TRY(encodeReturn(end));
  return resolveJumps();
}

Status Encoder::encodeBody(Reader &reader) {
  while (!reader.take("}")) {
    if (reader.peek().kind == Token::end)
      return reader.unexpected("a closing brace");
    MGC_TRY(encodeStatement(reader));
  }
  return Status::ok();
}

Status Encoder::encodeStatement(Reader &reader) {
  Token token = reader.peek();
  line_ = token.line;
  if (reader.take(";"))
    return Status::ok();
  if (reader.take("{")) {
    scopes_.push_back({});
    MGC_TRY(encodeBody(reader));
    scopes_.pop_back();
    return Status::ok();
  }
  if (reader.peek(1).is(":")) {
    reader.next(), reader.next();
    if (reader.peek().is(".branchtargets"))
      return declareTable(reader, token.text);
    labels_[token.text] = program_->ops.size();
    return Status::ok();
  }
  if (token.is(".reg"))
    return declareRegisters(reader);
  for (const char *space : {".shared", ".local", ".param"})
    if (token.is(space))
      return declareVariables(reader);
  if (token.is(".loc"))
    return reader.skipLine(), Status::ok();
  if (token.is(".pragma"))
    return reader.skipStatement(), Status::ok();
  MGC_TRY(readGuard(reader));
  MGC_ASSIGN(instruction, readInstruction(reader));
  return encodeInstruction(instruction);
}

Status Encoder::declareRegisters(Reader &reader) {
  reader.next();
  unsigned bits = bitsOfType(reader.peek().text);
  if (bits == 0 || bits > 64)
    return reader.unexpected("a type of at most 64 bits");
  reader.next();
  do {
    std::string_view name = reader.next().text;
    uint32_t count = kNone;
    if (reader.take("<")) {
      MGC_ASSIGN(given, parseLiteral(reader.next()));
      count = static_cast<uint32_t>(given);
      MGC_TRY(reader.expect(">"));
    }
    scopes_.back().groups[name] = {bits, count};
  } while (reader.take(","));
  return reader.expect(";");
}

Status Encoder::declareVariables(Reader &reader) {
  MGC_ASSIGN(variables, parseVariables(reader));
  for (const Variable &variable : variables)
    scopes_.back().addresses[variable.name] =
        variable.space == ".shared" ? allocateShared(variable) : allocateLocal(variable);
  return reader.expect(";");
}

Status Encoder::declareTable(Reader &reader, std::string_view name) {
  reader.next();
  do
    tables_[name].push_back(reader.next().text);
  while (reader.take(","));
  return reader.expect(";");
}

Status Encoder::resolveJumps() {
  for (const Jump &jump : jumps_) {
    auto label = labels_.find(jump.label);
    line_ = jump.line;
    if (label == labels_.end())
      return error(fmt::format("there is no label {} in this function", jump.label));
    program_->ops[jump.op].target = label->second;
  }
  jumps_.clear();
  return Status::ok();
}

Status Encoder::readGuard(Reader &reader) {
  guard_ = kNone;
  if (!reader.take("@"))
    return Status::ok();
  guardNegated_ = reader.take("!");
  MGC_ASSIGN(found, findRegister(reader.next().text));
  if (found.bits != 1)
    return error("the guard is no predicate");
  guard_ = found.at;
  return Status::ok();
}

Result<Operand> Encoder::readOperand(Reader &reader) {
  Operand operand;
  if (reader.peek().is("{") || reader.peek().is("(")) {
    std::string_view close = reader.next().is("{") ? "}" : ")";
    operand.kind = Operand::list;
    while (!reader.take(close)) {
      MGC_ASSIGN(element, readOperand(reader));
      operand.elements.push_back(element);
      if (!reader.take(",") && !reader.peek().is(close))
        return reader.unexpected(close);
    }
    return operand;
  }
  bool isMemory = reader.take("[");
  operand.negated = reader.take("!") || reader.take("-");
  operand.token = reader.next();
  if (operand.token.kind != Token::word && operand.token.kind != Token::number)
    return error(fmt::format("found \"{}\" where an operand should be", operand.token.text));
  operand.kind = isMemory                              ? Operand::memory
                 : operand.token.kind == Token::number ? Operand::literal
                 : operand.token.is("_")               ? Operand::sink
                                                       : Operand::name;
  while (reader.peek().is("+") || reader.peek().is("-")) {
    bool minus = reader.next().is("-");
    minus ^= reader.take("-");
    MGC_ASSIGN(value, parseLiteral(reader.next()));
    operand.offset += static_cast<int64_t>(minus ? 0 - value : value);
  }
  if (reader.take("|"))
    operand.second = reader.next().text;
  if (isMemory)
    MGC_TRY(reader.expect("]"));
  return operand;
}

Result<Instruction> Encoder::readInstruction(Reader &reader) {
  Instruction instruction;
  Token opcode = reader.next();
  if (opcode.kind != Token::word)
    return error(fmt::format("found \"{}\" where an instruction should be", opcode.text));
  opcode_ = opcode.text;
  instruction.line = line_ = opcode.line;
  for (size_t begin = 0; begin <= opcode.text.size();) {
    size_t end = std::min(opcode.text.find('.', begin), opcode.text.size());
    instruction.parts.emplace_back(opcode.text.substr(begin, end - begin));
    begin = end + 1;
  }
  while (!reader.take(";")) {
    MGC_ASSIGN(operand, readOperand(reader));
    instruction.operands.push_back(std::move(operand));
    if (!reader.take(",") && !reader.peek().is(";"))
      return reader.unexpected("\",\" or \";\"");
  }
  return instruction;
}

// A value for each lane, or a bit for each. Begins at a cache line.
uint32_t Encoder::allocate(unsigned bits) {
  uint32_t at = program_->registerBytes;
  program_->registerBytes += std::max<uint32_t>(64, bits * kLanes / 8);
  return at;
}

uint64_t Encoder::allocateLocal(const Variable &variable) {
  uint32_t &used = program_->info.localBytes;
  uint64_t at = roundUp(used, variable.align);
  used = at + variable.bytes;
  return generic(inLocal, at);
}

uint64_t Encoder::allocateShared(const Variable &variable) {
  uint32_t &used = program_->info.sharedBytes;
  uint64_t at = roundUp(used, variable.align);
  used = at + variable.bytes;
  return at;
}

uint32_t Encoder::constant(unsigned bits, uint64_t value, bool behindStatic) {
  if (bits < 64 && bits > 1)
    value &= (uint64_t(1) << bits) - 1;
  auto known = constants_.find({bits, value});
  if (!behindStatic && known != constants_.end())
    return known->second;
  uint32_t at = allocate(bits);
  if (behindStatic)
    behindStatic_.push_back(program_->constants.size());
  else
    constants_[{bits, value}] = at;
  program_->constants.push_back({at, bits / 8, value});
  return at;
}

Result<Place> Encoder::findRegister(std::string_view name) {
  std::string_view prefix = name.substr(0, name.find_last_not_of("0123456789") + 1);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto known = scope->registers.find(name);
    if (known != scope->registers.end())
      return known->second;
    auto group = scope->groups.find(name);
    if (group == scope->groups.end()) {
      group = scope->groups.find(prefix);
      if (group == scope->groups.end() || group->second.count == kNone || prefix.size() == name.size() ||
          std::stoul(std::string(name.substr(prefix.size()))) >= group->second.count)
        continue;
    }
    return scope->registers[std::string(name)] = {allocate(group->second.bits), group->second.bits};
  }
  return error(fmt::format("{} is not declared", name));
}

Result<uint32_t> Encoder::symbolAddress(const Operand &operand, unsigned bits) {
  std::string_view name = operand.token.text;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (auto known = scope->addresses.find(name); known != scope->addresses.end())
      return constant(bits, known->second + operand.offset);
  if (auto global = globals_.find(name); global != globals_.end())
    return constant(bits, global->second.begin + operand.offset);
  for (const Variable &variable : text_.variables) {
    if (variable.name != name || variable.space != ".shared")
      continue;
    if (variable.isExtern)
      return constant(bits, operand.offset, true);
    if (!shared_.count(name))
      shared_[name] = allocateShared(variable);
    return constant(bits, shared_[name] + operand.offset);
  }
  return error(fmt::format("{} is not defined in this module", name));
}

// The register of an operand. Literals and addresses have the width asked for, registers their own.
Result<Place> Encoder::place(const Operand &operand, unsigned bits) {
  std::string_view name = operand.token.text;
  if (operand.kind == Operand::literal) {
    bool isDecimal = name.find('.') != name.npos && !name.starts_with("0x");
    if (isDecimal) {
      double value = std::stod(std::string(name)) * (operand.negated ? -1 : 1);
      uint64_t half = std::bit_cast<uint32_t>(static_cast<float>(value));
      return Place{constant(bits, bits == 64 ? std::bit_cast<uint64_t>(value) : half), bits};
    }
    MGC_ASSIGN(value, parseLiteral(operand.token));
    if (bits == 1)
      value = value ? ~0u : 0;
    return Place{constant(bits, operand.negated ? 0 - value : value), bits};
  }
  if (operand.kind != Operand::name && operand.kind != Operand::memory)
    return error("an operand is no register, number or address");
  if (unsigned width = specialBits(name)) {
    for (const SpecialRegister &special : program_->specials)
      if (special.name == name)
        return Place{special.at, width};
    program_->specials.push_back({std::string(name), allocate(width), width / 8});
    return Place{program_->specials.back().at, width};
  }
  if (name.starts_with("%"))
    return findRegister(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (scope->groups.count(name))
      return findRegister(name);
  MGC_ASSIGN(address, symbolAddress(operand, bits));
  return Place{address, bits};
}

Result<uint32_t> Encoder::use(const Operand &operand, unsigned bits) {
  MGC_ASSIGN(found, place(operand, bits));
  if (found.bits != bits)
    return error(fmt::format("{} has {} bits where {} should be", operand.token.text, found.bits, bits));
  return found.at;
}

// Where a result goes; one that nobody wants gets a register of its own.
Result<uint32_t> Encoder::define(const Operand &operand, unsigned bits) {
  if (operand.kind == Operand::sink)
    return allocate(bits);
  if (operand.kind != Operand::name)
    return error("the destination is no register");
  return use(operand, bits);
}

} // namespace mgc::ptx
