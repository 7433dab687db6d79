// The operands of an instruction: the one place that says how many there are, how long they are and which are
// read and written. In: a mesh that passed verifyMesh and an instruction body whose axes are in it and whose strides are
// not below its rows. Out: a row per operand, in order.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Checked.h"

#include <string_view>

namespace mgc::plan {

struct OperandInfo {
  using Use = OperandUse;
  std::string_view name;
  Checked bytes; // nothing: more than 64 bits hold
  Use use = Use::read;
  // Part of a larger buffer: rows of `rowBytes` that begin `rowStride` bytes apart. 0: it is contiguous.
  Checked rowBytes = 0, rowStride = 0;
  int64_t elementBytes = 0; // what its address is a multiple of; 0: not known

  Checked span() const; // bytes from its begin to its end
  bool isRead() const { return use != Use::written; }
  bool isWritten() const { return use != Use::read; }
};

// Whether two operands of known spans at these offsets of one segment have no byte in common.
bool areApart(const OperandInfo &a, int64_t offsetA, const OperandInfo &b, int64_t offsetB);

using InstructionBody = decltype(Instruction::body);

std::vector<OperandInfo> operandsOf(const Mesh &mesh, const InstructionBody &body);

// Where in the list a product's operands behind A and B are; -1: it has none.
struct GemmOperands {
  int64_t bias = -1, c = -1, preactivation = -1, workspace = -1;
};
GemmOperands operandNumbersOf(const Gemm &gemm);

// Whether an operand that is written may be the very buffer of one that is read: all-reduce, copy, demote, and row
// kernels, which load what an element needs before they store it.
bool mayWorkInPlace(const InstructionBody &body);

// The number of ranks that take part in a collective.
int64_t groupSize(const Mesh &mesh, const Collective &collective);

} // namespace mgc::plan
