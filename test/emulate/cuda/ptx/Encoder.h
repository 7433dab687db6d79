// Makes the Program of one kernel: its own body and, before it, those of the functions it calls. Every register gets a place in the
// warp's register file, every immediate a constant there. PTX instructions become one or a few Ops.
#pragma once

#include "test/emulate/cuda/ptx/Forms.h"
#include "test/emulate/cuda/ptx/Parser.h"

#include <set>

namespace mgc::ptx {

struct Operand {
  enum Kind : uint8_t { name, literal, memory, list, sink } kind = sink;
  Token token;             // a name, a literal, or the base of a memory operand
  bool negated = false;    // !p, or a minus before a literal
  int64_t offset = 0;      // added to a symbol or address
  std::string_view second; // p|q
  std::vector<Operand> elements;
};

struct Instruction {
  std::vector<std::string> parts; // parts of the opcode, between its dots
  std::vector<Operand> operands;
  uint32_t line = 0;
  bool has(std::string_view part) const;
  bool take(std::string_view part); // removes it
  std::string joined(size_t from = 0) const;
  const std::string &type() const { return parts.back(); }
};

struct Place {
  uint32_t at = kNone;
  unsigned bits = 0;
};

class Encoder {
public:
  Encoder(const Text &text, const std::map<std::string, Region, std::less<>> &globals);
  Result<std::unique_ptr<Program>> encode(const Function &entry);

private:
  struct RegisterGroup {
    unsigned bits;
    uint32_t count; // number of registers; kNone for a name that stands for itself
  };
  struct Scope {
    std::map<std::string_view, RegisterGroup> groups;
    std::map<std::string, Place, std::less<>> registers;
    std::map<std::string_view, uint64_t> addresses; // addresses of .local, .shared and .param variables
  };
  struct Frame {
    uint32_t entry = 0;
    uint32_t returnTo = 0; // register of the return addresses
    std::vector<uint64_t> parameters, results;
  };
  struct Jump {
    uint32_t op;
    std::string_view label;
    uint32_t line;
  };

  // Encoder.cpp: functions, names and operands.
  Status encodeCallees(const Function &function);
  Status encodeFunction(const Function &function);
  Status encodeBody(Reader &reader);
  Status encodeStatement(Reader &reader);
  Status declareRegisters(Reader &reader);
  Status declareVariables(Reader &reader);
  Status declareTable(Reader &reader, std::string_view name);
  void declareParameters(const Function &function, Scope &scope, Frame &frame);
  Status resolveJumps();
  Status readGuard(Reader &reader);
  Result<Operand> readOperand(Reader &reader);
  Result<Instruction> readInstruction(Reader &reader);
  uint32_t allocate(unsigned bits);
  uint64_t allocateLocal(const Variable &variable);
  uint64_t allocateShared(const Variable &variable);
  uint32_t constant(unsigned bits, uint64_t value, bool behindStatic = false);
  Result<Place> findRegister(std::string_view name);
  Result<uint32_t> symbolAddress(const Operand &operand, unsigned bits);
  Result<Place> place(const Operand &operand, unsigned bits);
  Result<uint32_t> use(const Operand &operand, unsigned bits);
  Result<uint32_t> define(const Operand &operand, unsigned bits);
  Status error(std::string what) const;

  // EncodeInstruction.cpp: one member for each kind of instruction.
  using Member = Status (Encoder::*)(Instruction &);
  static const std::map<std::string_view, Member> &members();
  Status encodeInstruction(Instruction &instruction);
  Status encodePlain(Instruction &instruction);
  Status encodeForm(const std::string &key, Instruction &instruction);
  Status encodeMad(Instruction &instruction);
  Status encodeMov(Instruction &instruction);
  Status encodePack(const Operand &whole, const Operand &parts, unsigned bits, bool unpack);
  Status encodeSetp(Instruction &instruction);
  Status encodeSet(Instruction &instruction);
  Status encodeSlct(Instruction &instruction);
  Status encodeCvt(Instruction &instruction);
  Status encodeCvta(Instruction &instruction);
  Status encodeBranch(Instruction &instruction);
  Status encodeTableBranch(Instruction &instruction);
  Status encodeCall(Instruction &instruction);
  Status encodeReturn(Instruction &instruction);
  Status encodeExit(Instruction &instruction);
  Status encodeTrap(Instruction &instruction);
  Status encodeBarrier(Instruction &instruction);
  Status encodeWarpWide(Instruction &instruction);
  Status encodeMatrixProduct(Instruction &instruction); // MatrixProducts.cpp
  Status encodeNothing(Instruction &instruction);
  Status encodeLoad(Instruction &instruction);
  Status encodeStore(Instruction &instruction);
  Status encodeAtomic(Instruction &instruction);
  Result<Op> access(Instruction &instruction, const Operand &address);
  Result<std::vector<Operand>> elements(const Instruction &instruction, const Operand &operand, const char *kind);
  Status copyLocal(uint64_t from, uint64_t to, uint64_t bytes);
  Result<uint32_t> usePredicate(const Operand &operand);
  Result<uint32_t> compare(Instruction &instruction, bool &hasOther, uint32_t &other);
  uint16_t takeModes(Instruction &instruction);
  Result<const Form *> find(const std::string &key) const;
  Op &emit(Op op);
  Op &emit(const std::string &key, uint32_t d, std::initializer_list<uint32_t> sources);

  const Text &text_;
  const std::map<std::string, Region, std::less<>> &globals_;
  std::unique_ptr<Program> program_;
  std::vector<Scope> scopes_;
  std::map<std::string_view, Frame> frames_;
  std::set<std::string_view> open_; // callers of the function being encoded
  Frame *frame_ = nullptr;          // null in the entry
  std::map<std::string_view, uint32_t> labels_;
  std::map<std::string_view, std::vector<std::string_view>> tables_; // tables of brx.idx
  std::vector<Jump> jumps_;
  std::map<std::pair<unsigned, uint64_t>, uint32_t> constants_;
  std::vector<size_t> behindStatic_; // constants that count from the end of static shared memory
  std::map<std::string_view, uint64_t> shared_;
  uint32_t guard_ = kNone;
  bool guardNegated_ = false;
  uint32_t line_ = 0;
  std::string_view opcode_;
  uint32_t carry_ = kNone;
};

} // namespace mgc::ptx
