// Branches, calls, barriers, and memory accesses: what each kind of instruction becomes.
#include "test/emulate/cuda/ptx/Access.h"
#include "test/emulate/cuda/ptx/Encoder.h"

#include <algorithm>

namespace mgc::ptx {
namespace {

// Modifiers of memory instructions that say where a value is cached and who sees it when. One block runs at a time, or the host's
// memory is coherent, so they change nothing.
bool isHint(std::string_view part) {
  for (const char *name :
       {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu",  "sys",    "ca",
        "cg",   "cs",       "cv",      "lu",      "wb",      "wt",      "nc",  "noftz",   "mmio", "unified"})
    if (part == name)
      return true;
  return part.find("::") != part.npos;
}

unsigned bitsOf(const std::string &type) { return bitsOfType("." + type); }

} // namespace

Status Encoder::encodeBranch(Instruction &instruction) {
  if (instruction.operands.size() != 1)
    return error("bra takes one label");
  jumps_.push_back({static_cast<uint32_t>(program_->ops.size()), instruction.operands[0].token.text, line_});
  emit({.control = Control::branch});
  return Status::ok();
}

// brx.idx index, table: one comparison and branch for each label.
Status Encoder::encodeTableBranch(Instruction &instruction) {
  if (instruction.operands.size() != 2 || !tables_.count(instruction.operands[1].token.text))
    return error("brx.idx takes an index and the name of a .branchtargets list before it");
  if (guard_ != kNone)
    return error("a guarded brx.idx is not supported");
  MGC_ASSIGN(index, use(instruction.operands[0], 32));
  const std::vector<std::string_view> &labels = tables_[instruction.operands[1].token.text];
  uint32_t chosen = allocate(1);
  for (size_t i = 0; i < labels.size(); ++i) {
    guard_ = kNone;
    emit("setp.eq.u32", chosen, {index, constant(32, i)});
    guard_ = i + 1 < labels.size() ? chosen : kNone;
    guardNegated_ = false;
    jumps_.push_back({static_cast<uint32_t>(program_->ops.size()), labels[i], line_});
    emit({.control = Control::branch});
  }
  return Status::ok();
}

Status Encoder::copyLocal(uint64_t from, uint64_t to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    unsigned step = bytes - done >= 8 ? 8 : bytes - done >= 4 ? 4 : bytes - done >= 2 ? 2 : 1;
    uint32_t value = allocate(64);
    Op &load = emit(fmt::format("ld.u{}.64", 8 * step), value, {constant(64, from + done)});
    load.aux = accessGeneric;
    load.target = program_->ops.size() - 1;
    Op &store = emit(fmt::format("st.{}.64", 8 * step), 0, {constant(64, to + done), value});
    store.aux = accessGeneric;
    store.target = program_->ops.size() - 1;
    done += step;
  }
  return Status::ok();
}

// call (results), name, (arguments): the values move between the variables of the caller and those of the callee.
Status Encoder::encodeCall(Instruction &instruction) {
  std::vector<Operand> &operands = instruction.operands;
  std::vector<Operand> results;
  if (!operands.empty() && operands[0].kind == Operand::list) {
    results = operands[0].elements;
    operands.erase(operands.begin());
  }
  if (operands.empty() || !frames_.count(operands[0].token.text))
    return error("the function is not defined in this module");
  const Function &callee = text_.functions.at(operands[0].token.text);
  const Frame &frame = frames_.at(callee.name);
  std::vector<Operand> arguments;
  if (operands.size() > 1)
    arguments = operands[1].elements;
  if (arguments.size() != frame.parameters.size() || results.size() != frame.results.size())
    return error(fmt::format("{} takes {} arguments and returns {} values", callee.name, frame.parameters.size(),
                             frame.results.size()));
  auto addressOf = [&](const Operand &operand) -> Result<uint64_t> {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto known = scope->addresses.find(operand.token.text); known != scope->addresses.end())
        return known->second;
    return error(fmt::format("{} is no .param variable", operand.token.text));
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    MGC_ASSIGN(from, addressOf(arguments[i]));
    MGC_TRY(copyLocal(from, frame.parameters[i], callee.parameters[i].bytes));
  }
  emit({.d = frame.returnTo, .control = Control::call, .target = frame.entry});
  for (size_t i = 0; i < results.size(); ++i) {
    MGC_ASSIGN(to, addressOf(results[i]));
    MGC_TRY(copyLocal(frame.results[i], to, callee.results[i].bytes));
  }
  return Status::ok();
}

Status Encoder::encodeReturn(Instruction &instruction) {
  emit(frame_ ? Op{.a = frame_->returnTo, .control = Control::returns} : Op{.control = Control::exit});
  return Status::ok();
}

Status Encoder::encodeExit(Instruction &instruction) {
  emit({.control = Control::exit});
  return Status::ok();
}

Status Encoder::encodeTrap(Instruction &instruction) {
  emit({.run = [](Warp &warp, const Op &at, uint32_t mask) {
    warp.fault(at, std::countr_zero(mask), "the kernel stopped itself by a trap");
  }});
  return Status::ok();
}

Status Encoder::encodeNothing(Instruction &) { return Status::ok(); }

// bar.sync a{, b}, bar.warp.sync mask.
Status Encoder::encodeBarrier(Instruction &instruction) {
  for (const char *part : {"cta", "aligned", "all", "count"})
    instruction.take(part);
  const std::vector<Operand> &operands = instruction.operands;
  Op op;
  if (instruction.joined(1) == "warp.sync" && operands.size() == 1) {
    MGC_ASSIGN(lanes, use(operands[0], 32));
    op.control = Control::converge;
    op.target = lanes;
    op.run = [](Warp &, const Op &, uint32_t) {};
  } else if (instruction.joined(1) == "sync" && (operands.size() == 1 || operands.size() == 2)) {
    op.control = Control::barrier;
    MGC_SET(op.a, use(operands[0], 32));
    op.b = kNone;
    if (operands.size() == 2)
      MGC_SET(op.b, use(operands[1], 32));
  } else {
    return error(fmt::format("the interpreter does not know the barrier {}", opcode_));
  }
  emit(op);
  return Status::ok();
}

// Instructions with .sync have the participating lanes as their last operand.
Status Encoder::encodeWarpWide(Instruction &instruction) {
  MGC_ASSIGN(form, find(instruction.joined()));
  std::vector<Operand> &operands = instruction.operands;
  bool isSync = instruction.has("sync");
  if (operands.size() != form->sources.size() + 1 + isSync)
    return error(fmt::format("{} operands where {} should be", operands.size(), form->sources.size() + 1 + isSync));
  Op op;
  op.run = form->run;
  if (isSync) {
    MGC_ASSIGN(lanes, use(operands.back(), 32));
    op.control = Control::converge;
    op.target = lanes;
  }
  uint32_t *sources[] = {&op.a, &op.b, &op.c};
  for (size_t i = 0; i < form->sources.size(); ++i) {
    Result<uint32_t> source =
        form->sources[i] == 1 ? usePredicate(operands[i + 1]) : use(operands[i + 1], form->sources[i]);
    if (!source.isOk())
      return source.status();
    *sources[i] = *source;
  }
  MGC_SET(op.d, define(operands[0], form->d));
  Place predicate{allocate(1), 1};
  if (!operands[0].second.empty() && operands[0].second != "_")
    MGC_SET(predicate, findRegister(operands[0].second));
  op.aux = predicate.at;
  emit(op);
  return Status::ok();
}

// The operands that loads, stores and atomics share: the space, taken out of the opcode, and the address.
Result<Op> Encoder::access(Instruction &instruction, const Operand &address) {
  Op op;
  op.aux = accessGeneric;
  std::vector<std::string> kept{instruction.parts[0]};
  for (size_t i = 1; i < instruction.parts.size(); ++i) {
    std::string_view part = instruction.parts[i];
    std::string_view space = part.substr(0, part.find("::"));
    if (space == "global" || space == "const")
      op.aux = accessGlobal;
    else if (space == "shared")
      op.aux = accessShared;
    else if (space != "local" && space != "param" && !isHint(part))
      kept.emplace_back(part);
  }
  instruction.parts = kept;
  if (address.kind != Operand::memory)
    return error("the address does not stand in brackets");
  Operand base = address;
  base.offset = 0;
  MGC_ASSIGN(found, place(base, 64));
  if (found.bits != 64 && found.bits != 32)
    return error("an address has 32 or 64 bits");
  if (found.bits == 32)
    op.aux |= kShortAddress;
  op.a = found.at;
  op.offset = address.offset;
  return op;
}

namespace {

// The parts of a vector operand, or the operand itself.
std::vector<Operand> elementsOf(const Operand &operand) {
  return operand.kind == Operand::list ? operand.elements : std::vector<Operand>{operand};
}

bool isVector(std::string_view part) { return part == "v2" || part == "v4" || part == "v8"; }

} // namespace

// The elements of a load or store, whose type stands behind their number.
Result<std::vector<Operand>> Encoder::elements(const Instruction &instruction, const Operand &operand,
                                               const char *kind) {
  std::vector<Operand> elements = elementsOf(operand);
  const std::vector<std::string> &parts = instruction.parts;
  const size_t count = parts.size() > 2 && isVector(parts[1]) ? parts[1][1] - '0' : 1;
  if (parts.size() != (count > 1 ? 3 : 2) || elements.size() != count || bitsOf(instruction.type()) < 8)
    return error(fmt::format("the interpreter does not know the {} {}", kind, opcode_));
  return elements;
}

Status Encoder::encodeLoad(Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return error("a load takes two operands");
  MGC_ASSIGN(op, access(instruction, instruction.operands[1]));
  MGC_ASSIGN(elements, this->elements(instruction, instruction.operands[0], "load"));
  const size_t count = elements.size();
  const unsigned bits = bitsOf(instruction.type());
  op.align = count * bits / 8;
  for (size_t i = 0; i < count; ++i, op.offset += bits / 8) {
    if (elements[i].kind == Operand::sink) {
      op.align = 1;
      continue;
    }
    MGC_ASSIGN(d, place(elements[i], bits));
    MGC_ASSIGN(form, find(fmt::format("ld.{}{}.{}", instruction.type()[0] == 's' ? "s" : "u", bits, d.bits)));
    if (d.at == op.a && i + 1 < count) { // the address is needed for the rest
      uint32_t saved = allocate(d.bits);
      emit(fmt::format("mov.b{}", d.bits), saved, {op.a});
      op.a = saved;
    }
    op.run = form->run;
    op.d = d.at;
    op.target = program_->ops.size();
    emit(op);
    op.align = 1;
  }
  return Status::ok();
}

Status Encoder::encodeStore(Instruction &instruction) {
  if (instruction.operands.size() != 2)
    return error("a store takes two operands");
  MGC_ASSIGN(op, access(instruction, instruction.operands[0]));
  MGC_ASSIGN(elements, this->elements(instruction, instruction.operands[1], "store"));
  const unsigned bits = bitsOf(instruction.type());
  op.align = elements.size() * bits / 8;
  for (const Operand &element : elements) {
    MGC_ASSIGN(value, place(element, std::max(bits, 16u)));
    MGC_ASSIGN(form, find(fmt::format("st.{}.{}", bits, value.bits)));
    op.run = form->run;
    op.b = value.at;
    op.target = program_->ops.size();
    emit(op);
    op.align = 1;
    op.offset += bits / 8;
  }
  return Status::ok();
}

Status Encoder::encodeAtomic(Instruction &instruction) {
  bool hasResult = instruction.parts[0] == "atom";
  if (instruction.operands.size() < size_t(2 + hasResult))
    return error("an atomic takes an address and a value");
  MGC_ASSIGN(op, access(instruction, instruction.operands[hasResult]));
  instruction.parts[0] = "atom";
  MGC_ASSIGN(form, find(instruction.joined()));
  size_t values = form->sources.size() - 1;
  if (instruction.operands.size() != 1 + hasResult + values)
    return error(fmt::format("{} operands where {} should be", instruction.operands.size(), 1 + hasResult + values));
  MGC_ASSIGN(b, use(instruction.operands[1 + hasResult], form->d));
  op.b = op.c = b;
  if (values == 2)
    MGC_SET(op.c, use(instruction.operands[2 + hasResult], form->d));
  Operand nobody;
  MGC_ASSIGN(d, define(hasResult ? instruction.operands[0] : nobody, form->d));
  op.run = form->run;
  op.d = d;
  op.align = form->d / 8;
  op.target = program_->ops.size();
  emit(op);
  return Status::ok();
}

} // namespace mgc::ptx
