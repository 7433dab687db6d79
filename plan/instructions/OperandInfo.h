// An operand of an instruction as its kind states it: how long it is, how its bytes lie and what is done with them.
#pragma once

#include "plan/Types.h"
#include "runtime/base/Checked.h"

#include <string_view>
#include <vector>

namespace mgc::plan {

struct OperandInfo {
  using Use = OperandUse;
  std::string_view name;
  Checked bytes; // nothing: more than 64 bits hold
  Use use = Use::read;
  // Part of a larger buffer: rows of `rowBytes` that begin `rowStride` bytes apart. 0: it is contiguous.
  Checked rowBytes = 0, rowStride = 0;
  int64_t elementBytes = 0; // alignment of the address; 0: not known
  bool isScratch = false;   // its bytes stay in the caches: no traffic of the memory
  // The operand has groups of rows, and only those rows are read or written that a count in memory says there are. They come
  // first; behind the last of them may be anything.
  bool isCounted = false;
  // All of a value, as a list of counts: one of its parts belongs to other groups.
  bool isWholeValue = false;
  // A place is written from what is read at this place alone, here and on other ranks: rows stay those that there are.
  bool isElementwise = false;
  bool isOnHost = false; // in the host's arena; all others are in the device's

  Checked span() const; // bytes from its begin to its end
  bool isRead() const { return use != Use::written; }
  bool isWritten() const { return use != Use::read; }
};
using OperandInfos = std::vector<OperandInfo>;

// Elements one after another.
OperandInfo elementsOf(DType type, std::string_view name, Checked elements, OperandUse use = OperandUse::read);

// Rows of `row` elements, `stride` elements apart or, if that is 0, one after another.
OperandInfo rowsOf(DType type, std::string_view name, Checked rows, Checked row, int64_t stride, OperandUse use);

// The same with rows that are counted.
OperandInfo countedRows(OperandInfo info);

// Scratch memory that a library needs.
OperandInfo workspaceOf(int64_t bytes);
// Appends it if there is some.
void addWorkspace(OperandInfos &infos, int64_t bytes);

// Whether two operands of known spans at these offsets of one segment have no byte in common.
bool areApart(const OperandInfo &a, int64_t offsetA, const OperandInfo &b, int64_t offsetB);

} // namespace mgc::plan
