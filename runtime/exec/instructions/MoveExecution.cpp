#include "runtime/exec/instructions/Execution.h"

namespace mgc {

// The last operand is written; a fill has no other.
Status enqueue(const Enqueueing &at, const plan::Move &move) {
  const mgc_address from = at.operands.front(), to = at.operands.back();
  const int64_t coordinate = at.record.coordinate, part = move.chunkBytes;
  switch (move.kind) {
  case plan::Move::Kind::slice:
    if (move.outer == 0 || part == 0)
      return Status::ok();
    return at.stream.copyRows(to, part, from + static_cast<uint64_t>(coordinate * part), at.record.coordinates * part,
                              part, move.outer);
  case plan::Move::Kind::fill:
    return move.bytes == 0 ? Status::ok() : at.stream.fill(to, 0, move.bytes);
  case plan::Move::Kind::demote:
    if (coordinate != 0)
      return move.bytes == 0 ? Status::ok() : at.stream.fill(to, 0, move.bytes);
    [[fallthrough]];
  case plan::Move::Kind::copy:
    return from == to || move.bytes == 0 ? Status::ok() : at.stream.copy(to, from, move.bytes);
  }
  return Status::ok();
}

} // namespace mgc
