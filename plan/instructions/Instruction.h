// The table of instructions: the kinds that a program has, and what everyone but a backend asks of one. A kind is a struct in a
// file of its own (GemmInstruction.h), whose members are its row:
//
//     kName                      "op" in plan.json; fields(V &, Of<Kind>) are its other fields
//     verify(AttributeChecks &)  its attributes: violations, and whether the others may be asked
//     operands(mesh)             in order: name, bytes, use, rows, alignment
//     kWork                      what limits it
//     work(mesh)                 its cost, without a machine; bytes of the memory are the operands', unless it states them
//     sizes()                    for people: "256x768x3072 NT+"
//   and, of some,
//     mayWorkInPlace()           an operand that is written may be the very buffer of one that is read; else none may
//     runScalars()               numbers that the rank, the call and the run give it
//     placement()                axes along which it asks for the rank's coordinate
//     group(), communication(ranks), agreement()    of a communication: its ranks, what it costs, what all of them must agree on
//     kernel(label)              its name in profiles, if it is not "label [sizes]"
//
// A backend has one function for each kind besides (runtime/exec/instructions). docs/adding-an-instruction.md adds one.
#pragma once

#include "plan/instructions/AttentionInstruction.h"
#include "plan/instructions/CollectiveInstruction.h"
#include "plan/instructions/DropChoicesInstruction.h"
#include "plan/instructions/ExchangeRowsInstruction.h"
#include "plan/instructions/GemmInstruction.h"
#include "plan/instructions/GroupRowsInstruction.h"
#include "plan/instructions/GroupedGemmInstruction.h"
#include "plan/instructions/HostCopyInstruction.h"
#include "plan/instructions/MoveInstruction.h"
#include "plan/instructions/RowKernelInstruction.h"

#include <optional>
#include <variant>

namespace mgc::plan {

using InstructionBody = std::variant<RowKernel, Gemm, GroupedGemm, GroupRows, DropChoices, ExchangeRows, Attention,
                                     Collective, Move, HostCopy>;

struct Instruction {
  InstructionBody body;
  std::vector<Operand> operands;
  std::string label; // where it comes from, for errors and traces: "layer.fwd/attn.q"
  bool operator==(const Instruction &) const = default;
};

// kName of each, in the order of the variant.
inline constexpr auto kInstructionNames = []<typename... Kinds>(std::variant<Kinds...> *) {
  return std::to_array<std::string_view>({Kinds::kName...});
}(static_cast<InstructionBody *>(nullptr));

template <typename V> constexpr void fields(V &v, Of<Instruction>) {
  v.alternatives("op", kInstructionNames, &Instruction::body);
  required<&Instruction::operands, &Instruction::label>(v);
}

// The body's attributes; operandsOf and workOf may be asked if they leave the checks sound.
void verify(AttributeChecks &checks, const InstructionBody &body);
OperandInfos operandsOf(const Mesh &mesh, const InstructionBody &body);
WorkKind kindOf(const InstructionBody &body);
Work workOf(const Mesh &mesh, const InstructionBody &body);
bool mayWorkInPlace(const InstructionBody &body);
std::vector<const Scalar *> runScalarsOf(const InstructionBody &body);
const Axes &placementOf(const InstructionBody &body); // empty where it does not ask
// Equal for equal work: the symbol of a row kernel; else the label, which has no layer, with the sizes.
std::string kernelOf(const Instruction &instruction);

std::optional<RankGroup> groupOf(const InstructionBody &body); // nothing: it does not communicate
inline bool isCommunication(const InstructionBody &body) { return groupOf(body).has_value(); }
// In: a communication.
Communication communicationOf(const Mesh &mesh, const InstructionBody &body);
std::string agreementOf(const InstructionBody &body);

} // namespace mgc::plan
