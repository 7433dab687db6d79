// Arithmetic and moves: what each kind of instruction becomes.
#include "test/emulate/cuda/ptx/Conversions.h"
#include "test/emulate/cuda/ptx/Encoder.h"

#include <algorithm>

namespace mgc::ptx {
namespace {

// Bits of the host's SSE control register.
constexpr uint16_t kDefaultMode = 0x1F80, kFlush = 0x8040, kRoundDown = 0x2000, kRoundUp = 0x4000,
                   kRoundToZero = 0x6000;

bool isFloat(std::string_view type) { return type == "f32" || type == "f64" || type == "f32x2"; }
bool isSmallFloat(std::string_view type) { return type.ends_with("f16") || type.ends_with("f16x2"); }
unsigned bitsOf(const std::string &type) { return bitsOfType("." + type); }

} // namespace

bool Instruction::has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

bool Instruction::take(std::string_view part) {
  auto found = std::find(parts.begin() + 1, parts.end(), part);
  if (found == parts.end())
    return false;
  parts.erase(found);
  return true;
}

std::string Instruction::joined(size_t from) const {
  return fmt::format("{}", fmt::join(parts.begin() + from, parts.end(), "."));
}

const std::map<std::string_view, Encoder::Member> &Encoder::members() {
  static const std::map<std::string_view, Member> members = {
      {"mov", &Encoder::encodeMov},           {"mad", &Encoder::encodeMad},
      {"madc", &Encoder::encodeMad},          {"setp", &Encoder::encodeSetp},
      {"set", &Encoder::encodeSet},           {"slct", &Encoder::encodeSlct},
      {"cvt", &Encoder::encodeCvt},           {"cvta", &Encoder::encodeCvta},
      {"bra", &Encoder::encodeBranch},        {"brx", &Encoder::encodeTableBranch},
      {"call", &Encoder::encodeCall},         {"ret", &Encoder::encodeReturn},
      {"exit", &Encoder::encodeExit},         {"trap", &Encoder::encodeTrap},
      {"bar", &Encoder::encodeBarrier},       {"barrier", &Encoder::encodeBarrier},
      {"shfl", &Encoder::encodeWarpWide},     {"vote", &Encoder::encodeWarpWide},
      {"match", &Encoder::encodeWarpWide},    {"redux", &Encoder::encodeWarpWide},
      {"mma", &Encoder::encodeMatrixProduct}, {"activemask", &Encoder::encodeWarpWide},
      {"ld", &Encoder::encodeLoad},           {"ldu", &Encoder::encodeLoad},
      {"st", &Encoder::encodeStore},          {"atom", &Encoder::encodeAtomic},
      {"red", &Encoder::encodeAtomic},        {"membar", &Encoder::encodeNothing},
      {"fence", &Encoder::encodeNothing},     {"nanosleep", &Encoder::encodeNothing},
      {"prefetch", &Encoder::encodeNothing},  {"prefetchu", &Encoder::encodeNothing},
      {"discard", &Encoder::encodeNothing},
  };
  return members;
}

Status Encoder::encodeInstruction(Instruction &instruction) {
  auto member = members().find(instruction.parts[0]);
  return member == members().end() ? encodePlain(instruction) : (this->*member->second)(instruction);
}

Op &Encoder::emit(Op op) {
  op.guard = guard_;
  op.guardNegated = guardNegated_;
  op.line = line_;
  return program_->ops.emplace_back(op);
}

// For rows of the table that are known to be there.
Op &Encoder::emit(const std::string &key, uint32_t d, std::initializer_list<uint32_t> sources) {
  Op op;
  op.run = forms().at(key).run;
  op.d = d;
  uint32_t *place[] = {&op.a, &op.b, &op.c};
  for (size_t i = 0; i < sources.size(); ++i)
    *place[i] = sources.begin()[i];
  return emit(op);
}

Result<const Form *> Encoder::find(const std::string &key) const {
  auto form = forms().find(key);
  if (form == forms().end())
    return error(fmt::format("the interpreter does not know the instruction {}", opcode_));
  return &form->second;
}

// Takes .rz, .rm, .rp and .ftz out of the opcode: they become a mode of the host.
uint16_t Encoder::takeModes(Instruction &instruction) {
  uint16_t mode = 0;
  if (!isFloat(instruction.type()))
    return mode;
  if (instruction.take("ftz"))
    mode |= kFlush;
  if (instruction.take("rz"))
    mode |= kRoundToZero;
  if (instruction.take("rm"))
    mode |= kRoundDown;
  if (instruction.take("rp"))
    mode |= kRoundUp;
  return mode ? mode | kDefaultMode : 0;
}

// Encodes an instruction with a row in the table under its own name, but for the modifiers that choose no other result.
Status Encoder::encodePlain(Instruction &instruction) {
  const std::string type = instruction.type();
  uint16_t mode = takeModes(instruction);
  bool isReal = isFloat(type) || isSmallFloat(type);
  bool saturates = isReal && instruction.take("sat");
  for (const char *part : {"rn", "approx", "full"})
    if (isReal && !forms().count(instruction.joined()))
      instruction.take(part);
  if (!isReal && instruction.parts[0] == "mul")
    instruction.take("lo");
  size_t first = program_->ops.size();
  MGC_TRY(encodeForm(instruction.joined(), instruction));
  MGC_ASSIGN(d, define(instruction.operands[0], forms().at(instruction.joined()).d));
  if (saturates)
    emit("saturate." + type, d, {d});
  // The host's mode reaches arithmetic alone, not moves of bits and choices.
  for (const char *part : {"neg", "abs", "min", "max"})
    if (mode && instruction.parts[0] == part)
      emit("mul." + type, d, {d, constant(bitsOf(type), type == "f64" ? 0x3FF0000000000000 : 0x3F800000)});
  for (size_t i = first; i < program_->ops.size(); ++i)
    program_->ops[i].mode = mode;
  return Status::ok();
}

Status Encoder::encodeForm(const std::string &key, Instruction &instruction) {
  MGC_ASSIGN(form, find(key));
  const std::vector<Operand> &operands = instruction.operands;
  if (operands.size() != form->sources.size() + 1)
    return error(fmt::format("{} operands where {} should be", operands.size(), form->sources.size() + 1));
  Op op;
  op.run = form->run;
  op.aux = carry_;
  uint32_t *sources[] = {&op.a, &op.b, &op.c, &op.aux};
  for (size_t i = 0; i < form->sources.size(); ++i) {
    if (form->sources[i] == 1) {
      MGC_SET(*sources[i], usePredicate(operands[i + 1]));
    } else
      MGC_SET(*sources[i], use(operands[i + 1], form->sources[i]));
  }
  MGC_SET(op.d, define(operands[0], form->d));
  emit(op);
  return Status::ok();
}

// A predicate, or the negation of one.
Result<uint32_t> Encoder::usePredicate(const Operand &operand) {
  MGC_ASSIGN(found, use(operand, 1));
  if (operand.kind != Operand::name || !operand.negated)
    return found;
  uint32_t negated = allocate(1);
  emit("not.pred", negated, {found});
  return negated;
}

// mad{c}.lo|hi|wide{.cc} of integers is a product and a sum.
Status Encoder::encodeMad(Instruction &instruction) {
  const std::string type = instruction.type();
  if (isFloat(type)) {
    instruction.parts[0] = "fma";
    return encodePlain(instruction);
  }
  if (instruction.operands.size() != 4)
    return error("mad takes four operands");
  bool carries = instruction.take("cc"), wide = instruction.has("wide"), takesCarry = instruction.parts[0] == "madc";
  instruction.take("lo");
  instruction.parts[0] = "mul";
  MGC_ASSIGN(product, find(instruction.joined()));
  MGC_ASSIGN(a, use(instruction.operands[1], bitsOf(type)));
  MGC_ASSIGN(b, use(instruction.operands[2], bitsOf(type)));
  uint32_t partial = allocate(product->d);
  emit(instruction.joined(), partial, {a, b});
  const std::string sumType = fmt::format("{}{}", type[0], bitsOf(type) * (wide ? 2 : 1));
  std::string key = fmt::format("{}{}.{}", takesCarry ? "addc" : "add", carries ? ".cc" : "", sumType);
  MGC_ASSIGN(sum, find(key));
  MGC_ASSIGN(c, use(instruction.operands[3], sum->d));
  MGC_ASSIGN(d, define(instruction.operands[0], sum->d));
  emit(key, d, {partial, c}).aux = carry_;
  return Status::ok();
}

Status Encoder::encodeMov(Instruction &instruction) {
  unsigned bits = bitsOf(instruction.type());
  std::vector<Operand> &operands = instruction.operands;
  if (operands.size() != 2)
    return error("mov takes two operands");
  if (operands[0].kind == Operand::list || operands[1].kind == Operand::list) {
    bool unpack = operands[0].kind == Operand::list;
    return encodePack(operands[unpack], operands[!unpack], bits, unpack);
  }
  if (bits == 1)
    instruction.parts[1] = "pred";
  return encodeForm(instruction.joined(), instruction);
}

// mov.b32 %r, {%a, %b} and back. The first part is the lowest.
Status Encoder::encodePack(const Operand &whole, const Operand &parts, unsigned bits, bool unpack) {
  unsigned partBits = bits / std::max<size_t>(1, parts.elements.size());
  MGC_ASSIGN(form, find(fmt::format("{}.{}.{}", unpack ? "unpack" : "pack", bits, partBits)));
  Result<uint32_t> wholeAt = unpack ? use(whole, bits) : define(whole, bits);
  if (!wholeAt.isOk())
    return wholeAt.status();
  for (size_t i = 0; i < parts.elements.size(); ++i) {
    if (unpack && parts.elements[i].kind == Operand::sink)
      continue;
    Result<uint32_t> part = unpack ? define(parts.elements[i], partBits) : use(parts.elements[i], partBits);
    if (!part.isOk())
      return part.status();
    Op op;
    op.run = form->run;
    op.d = unpack ? *part : *wholeAt;
    op.a = unpack ? *wholeAt : *part;
    op.aux = i;
    emit(op);
  }
  return Status::ok();
}

// setp and set: the comparison, joined with a predicate where one is given (.and, .or, .xor). The other result, of p|q, is that of
// the opposite comparison joined likewise.
Result<uint32_t> Encoder::compare(Instruction &instruction, bool &hasOther, uint32_t &other) {
  std::vector<Operand> &operands = instruction.operands;
  uint16_t mode = takeModes(instruction);
  std::string join;
  for (const char *part : {"and", "or", "xor"})
    if (instruction.take(part))
      join = part;
  instruction.parts[0] = "setp";
  MGC_ASSIGN(form, find(instruction.joined()));
  if (operands.size() != (join.empty() ? 3 : 4))
    return error(fmt::format("{} operands where {} should be", operands.size(), join.empty() ? 3 : 4));
  MGC_ASSIGN(a, use(operands[1], form->sources[0]));
  MGC_ASSIGN(b, use(operands[2], form->sources[1]));
  uint32_t result = allocate(1);
  emit(instruction.joined(), result, {a, b}).mode = mode;
  hasOther = !operands[0].second.empty();
  if (hasOther)
    emit("not.pred", other = allocate(1), {result});
  if (join.empty())
    return result;
  MGC_ASSIGN(with, usePredicate(operands[3]));
  emit(join + ".pred", result, {result, with});
  if (hasOther)
    emit(join + ".pred", other, {other, with});
  return result;
}

Status Encoder::encodeSetp(Instruction &instruction) {
  bool hasOther = false;
  uint32_t other = 0;
  MGC_ASSIGN(result, compare(instruction, hasOther, other));
  MGC_ASSIGN(d, define(instruction.operands[0], 1));
  if (hasOther) {
    MGC_ASSIGN(q, findRegister(instruction.operands[0].second));
    emit("mov.pred", q.at, {other});
  }
  emit("mov.pred", d, {result});
  return Status::ok();
}

// set.op.D.S: all bits or 1.0 where the comparison holds.
Status Encoder::encodeSet(Instruction &instruction) {
  if (instruction.parts.size() < 4)
    return error("set takes two types");
  const std::string type = instruction.parts[instruction.parts.size() - 2];
  instruction.parts.erase(instruction.parts.end() - 2);
  bool hasOther = false;
  uint32_t other = 0;
  MGC_ASSIGN(result, compare(instruction, hasOther, other));
  MGC_ASSIGN(form, find("selp." + type));
  MGC_ASSIGN(d, define(instruction.operands[0], form->d));
  uint32_t yes = constant(form->d, type == "f32" ? 0x3F800000 : ~uint64_t(0));
  emit("selp." + type, d, {yes, constant(form->d, 0), result});
  return Status::ok();
}

// slct.D.C d, a, b, c: a where c >= 0.
Status Encoder::encodeSlct(Instruction &instruction) {
  instruction.take("ftz");
  if (instruction.parts.size() != 3 || instruction.operands.size() != 4)
    return error("slct takes two types and four operands");
  MGC_ASSIGN(form, find("selp." + instruction.parts[1]));
  MGC_ASSIGN(c, use(instruction.operands[3], 32));
  uint32_t chosen = allocate(1);
  MGC_ASSIGN(comparison, find("setp.ge." + instruction.parts[2]));
  Op compared;
  compared.run = comparison->run;
  compared.d = chosen, compared.a = c, compared.b = constant(32, 0);
  emit(compared);
  MGC_ASSIGN(a, use(instruction.operands[1], form->d));
  MGC_ASSIGN(b, use(instruction.operands[2], form->d));
  MGC_ASSIGN(d, define(instruction.operands[0], form->d));
  emit("selp." + instruction.parts[1], d, {a, b, chosen});
  return Status::ok();
}

// A register may be wider than the integer in it: then the lower bits are taken first, and the result is extended at the end.
Status Encoder::encodeCvt(Instruction &instruction) {
  if (instruction.parts.size() < 3)
    return error("cvt takes two types");
  if (instruction.type() == "f32" && instruction.parts[instruction.parts.size() - 2].ends_with("x2")) {
    instruction.take("rn");
    return encodeForm(instruction.joined(), instruction);
  }
  const std::string from = instruction.type(), to = instruction.parts[instruction.parts.size() - 2];
  uint32_t how = 0;
  for (auto [part, whole] : {std::pair{"rni", kNearest}, {"rzi", kToZero}, {"rmi", kDown}, {"rpi", kUp}})
    if (instruction.take(part))
      how |= whole;
  bool real = isFloat(to) || isSmallFloat(to), saturates = instruction.take("sat");
  if (saturates && !real)
    how |= kSaturate;
  instruction.take("rn");
  std::swap(instruction.parts.back(), instruction.parts[instruction.parts.size() - 2]);
  uint16_t mode = takeModes(instruction); // modes of the destination's type, which is last now
  std::swap(instruction.parts.back(), instruction.parts[instruction.parts.size() - 2]);
  if (!isFloat(to) && instruction.take("ftz"))
    mode = kDefaultMode | kFlush;
  MGC_ASSIGN(form, find(instruction.joined()));
  MGC_ASSIGN(source, place(instruction.operands.at(1), form->sources[0]));
  MGC_ASSIGN(d, place(instruction.operands[0], form->d));
  if (source.bits != form->sources[0]) {
    std::string key = fmt::format("narrow.{}.{}", from, source.bits);
    MGC_ASSIGN(narrow, find(key));
    uint32_t lower = allocate(narrow->d);
    emit(key, lower, {source.at});
    source.at = lower;
  }
  uint32_t result = d.bits == form->d ? d.at : allocate(form->d);
  Op &op = emit(instruction.joined(), result, {source.at});
  op.aux = how;
  op.mode = mode;
  if (saturates && real)
    emit("saturate." + to, result, {result});
  if (d.bits != form->d) {
    std::string key = fmt::format("widen.{}.{}", to, d.bits);
    MGC_TRY(find(key).status());
    emit(key, d.at, {result});
  }
  return Status::ok();
}

// Generic addresses differ from others in .shared alone; .local and .param ones are generic all along.
Status Encoder::encodeCvta(Instruction &instruction) {
  bool toSpace = instruction.take("to");
  bool isShared = instruction.take("shared") || instruction.take("shared::cta");
  for (const char *space : {"global", "const", "local", "param"})
    instruction.take(space);
  if (instruction.joined() != "cvta.u64" || instruction.operands.size() != 2)
    return error("cvta takes two operands of .u64");
  MGC_ASSIGN(a, use(instruction.operands[1], 64));
  MGC_ASSIGN(d, define(instruction.operands[0], 64));
  if (!isShared)
    emit("mov.u64", d, {a});
  else if (toSpace)
    emit("and.b64", d, {a, constant(64, offsetOf(~uint64_t(0)))});
  else
    emit("or.b64", d, {a, constant(64, generic(inShared, 0))});
  return Status::ok();
}

} // namespace mgc::ptx
