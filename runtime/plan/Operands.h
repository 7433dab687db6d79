// What each operand of an instruction is: the one place that says how many there are, how long and which are
// written. In: a mesh that passed verifyMesh and an instruction body whose axes are in it. Out: a row per
// operand, in order.
#pragma once

#include "runtime/base/Checked.h"
#include "runtime/plan/Plan.h"

#include <string_view>

namespace mgc::plan {

struct OperandInfo {
  enum class Use { read, written };
  std::string_view name;
  Checked bytes; // nothing: more than 64 bits hold
  Use use = Use::read;
};

using InstructionBody = decltype(Instruction::body);

// Empty for a row kernel: its operands are known to its code only.
std::vector<OperandInfo> operandsOf(const Mesh &mesh, const InstructionBody &body);

// Whether an operand that is written may be the very buffer of one that is read: all-reduce, copy and demote.
bool mayWorkInPlace(const InstructionBody &body);

// The number of ranks that take part in a collective.
int64_t groupSize(const Mesh &mesh, const Collective &collective);

} // namespace mgc::plan
