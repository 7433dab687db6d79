// Joins: where a run of a chunk waits for work that runs concurrently with it. In: the works of the run in the order in which they are
// enqueued, each with its lane and the bytes that it touches. Out: for each the earlier works that must be waited for first. The
// runtime installs these joins, and the cost of a run is counted with them.
//
// Works of the main lane, 0, run in order. A work of another lane begins after all works of the main lane that were
// enqueued before it, and after those of its own lane. Two works that touch a byte, one of them writing, must run in
// order; a join, which makes the main lane wait for a work, is where the second of two comes that nothing else has put
// in order. The end of the run joins the rest:
//
//     main   dgrad |  remake  wgrad  | norm_grad reads what reduce writes: joins it
//     lane 1       | reduce .........|
#pragma once

#include "plan/Plan.h"

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

namespace mgc::plan {

// Bytes [begin, end) of the rank's allocation; none if they are equal.
struct BytesTouched {
  int64_t begin = 0, end = 0;
  bool isWritten = false;
};
using Touched = std::vector<BytesTouched>;

// Whether both touch a byte that one of them writes.
bool collide(const Touched &some, const Touched &others);

// A byte behind every address: works that touch it run in order, on whichever lanes. Groups of ranks have one each.
BytesTouched orderOfGroup(int64_t group);

class JoinPoints {
public:
  static constexpr int64_t kMain = 0;

  // The works, by number, that the main lane must wait for before it goes on with this one or, if it is of another lane,
  // before that begins: at most one per lane, for those before it in its lane are done then too.
  std::vector<int64_t> enqueue(int64_t number, int64_t lane, Touched touched);
  // The works to wait for so that the main lane is behind everything.
  std::vector<int64_t> finish();

private:
  struct Work {
    int64_t number;
    Touched touched;
  };
  std::map<int64_t, std::deque<Work>> pending_; // by lane: not joined yet, in order
};

// --- Works of a plan ----------------------------------------------------------------------------------------------

// The instructions of a program as they run, with the bytes of its segments that they touch.
class ProgramWorks {
public:
  struct Operand {
    int64_t segment = 0;
    BytesTouched bytes; // counted from the segment's begin
  };
  ProgramWorks() = default;
  // The program must outlive them.
  ProgramWorks(const Mesh &mesh, const Program &program);
  size_t size() const { return works_.size(); }
  const Instruction &instruction(size_t work) const { return *works_[work].instruction; }
  std::span<const Operand> operands(size_t work) const {
    return std::span(operands_).subspan(works_[work].firstOperand, works_[work].instruction->operands.size());
  }
  // By a call that binds segments which begin at `bases`.
  Touched touched(size_t work, std::span<const int64_t> bases) const;
  // Where segments may begin so that no two meet.
  std::vector<int64_t> basesApart() const;

private:
  struct Work {
    const Instruction *instruction;
    size_t firstOperand;
  };
  std::vector<Work> works_;
  std::vector<Operand> operands_;
};

// Where each segment begins that a call binds in an iteration of its repeat, in a run whose slots begin at `slots`.
std::vector<int64_t> basesOf(const Call &call, int64_t iteration, std::span<const int64_t> slots);

// --- Joins of a run -----------------------------------------------------------------------------------------------

struct RunWork {
  const Instruction *instruction = nullptr;
  int64_t lane = JoinPoints::kMain;
  Touched touched;
};

// Works are numbered from the first of the run.
struct Join {
  int64_t before = 0; // the number of the run's works for what none of them must wait for
  int64_t work = 0;   // it and those before it in its lane are waited for
};

std::vector<Join> joinsOf(std::span<const RunWork> run); // in order

// Where the turns of a run with these joins begin (plan/PairTurns.h): at its first work, and where it waits for an exchange of rows.
std::vector<int64_t> turnsOf(std::span<const RunWork> run, std::span<const Join> joins);

} // namespace mgc::plan
