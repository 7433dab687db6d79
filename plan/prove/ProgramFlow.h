// Proves, by bytes, what a program reads and writes of its segments, following its instructions in order. In: a program
// that passed verifyPrograms. Out: per segment the bytes that it reads before it writes them, and those that it writes;
// or what is wrong:
//   a value is read from bytes of another one                              (Operand::value)
//   a part of a value is read that no instruction wrote                    (values whose rows are written apart)
//   the frame is read where no instruction of the call wrote
//   rows are read whole of which only those that there are were written  (OperandInfo::isCounted)
#pragma once

#include "plan/Plan.h"
#include "plan/prove/Bytes.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

struct SegmentFlow {
  ByteSet reads;  // before the program writes them
  ByteSet writes; // all that it has written in the end
  // Parts of the two: reads by operands with uncounted rows, writes by operands with counted rows.
  ByteSet wholeReads, countedWrites;
};

struct ProgramFlow {
  std::vector<SegmentFlow> segments;
};

// `place`: by segment, the one in whose memory it lies, itself or an earlier one: where a call binds both to the same
// bytes. Its reads and writes are recorded there.
ProgramFlow flowOf(const Plan &plan, const Program &program, const std::vector<int64_t> &place, Problems &problems);

} // namespace mgc::plan
