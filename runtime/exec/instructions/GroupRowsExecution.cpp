#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::GroupRows &what) {
  return at.stream.groupRows(
      {.groups = what.groups,
       .rows = what.rows,
       .places = what.places,
       .first = at.record.coordinate * what.groups,
       .all = at.record.coordinates * what.groups},
      {.numbers = at.operands[0], .counts = at.operands[1], .places = at.operands[2], .sources = at.operands[3]});
}

} // namespace mgc
