// See Joins.h.
#include "plan/Joins.h"

#include "plan/Expand.h"

#include <algorithm>
#include <limits>

namespace mgc::plan {

namespace {

constexpr int64_t kGroups = int64_t(1) << 62;
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max() / 4; // a plan that verifies has no such operand

bool collide(const BytesTouched &a, const BytesTouched &b) {
  return (a.isWritten || b.isWritten) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

} // namespace

bool collide(const Touched &some, const Touched &others) {
  return std::ranges::any_of(some, [&](const BytesTouched &a) {
    return std::ranges::any_of(others, [&](const BytesTouched &b) { return collide(a, b); });
  });
}

BytesTouched orderOfGroup(int64_t group) { return {kGroups + group, kGroups + group + 1, true}; }

std::vector<int64_t> JoinPoints::enqueue(int64_t number, int64_t lane, Touched touched) {
  std::vector<int64_t> joined;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    auto &[other, works] = *entry;
    const auto isInTheWay = [&](const Work &work) { return collide(work.touched, touched); };
    const auto last = other == lane ? works.rend() : std::find_if(works.rbegin(), works.rend(), isInTheWay);
    if (last != works.rend()) {
      joined.push_back(last->number);
      works.erase(works.begin(), last.base());
    }
    entry = works.empty() ? pending_.erase(entry) : std::next(entry);
  }
  if (lane != kMain)
    pending_[lane].push_back({number, std::move(touched)});
  return joined;
}

std::vector<int64_t> JoinPoints::finish() {
  std::vector<int64_t> joined;
  for (const auto &[lane, works] : pending_)
    joined.push_back(works.back().number);
  pending_.clear();
  return joined;
}

// --- Works of a plan ----------------------------------------------------------------------------------------------

ProgramWorks::ProgramWorks(const Mesh &mesh, const Program &program) {
  std::vector<BytesTouched> once; // each operand's, without its offset
  std::vector<size_t> firstOperands;
  for (const Instruction &instruction : program.instructions) {
    firstOperands.push_back(once.size());
    for (const OperandInfo &info : operandsOf(mesh, instruction.body))
      once.push_back({0, info.span().value_or(kLongest), info.isWritten()});
  }
  works_.reserve(static_cast<size_t>(runCount(program.instructions.size(), program.repeats)));
  operands_.reserve(once.size());
  forEachRun(program.instructions.size(), program.repeats, [&](int64_t number, int64_t iteration) {
    const Instruction &instruction = program.instructions[number];
    works_.push_back({&instruction, operands_.size()});
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const int64_t offset = inIteration(instruction.operands[i], iteration).offset;
      const auto &[_, bytes, isWritten] = once[firstOperands[number] + i];
      operands_.push_back({instruction.operands[i].segment, {offset, offset + bytes, isWritten}});
    }
  });
}

Touched ProgramWorks::touched(size_t work, std::span<const int64_t> bases) const {
  Touched touched;
  touched.reserve(operands(work).size());
  for (const auto &[segment, bytes] : operands(work))
    touched.push_back({bases[segment] + bytes.begin, bases[segment] + bytes.end, bytes.isWritten});
  return touched;
}

std::vector<int64_t> ProgramWorks::basesApart() const {
  std::vector<int64_t> bases; // sizes, then where they begin
  for (const auto &[segment, bytes] : operands_) {
    bases.resize(std::max<size_t>(bases.size(), segment + 1));
    bases[segment] = std::max(bases[segment], bytes.end);
  }
  for (int64_t next = 0; int64_t &base : bases)
    next += std::exchange(base, next);
  return bases;
}

std::vector<int64_t> basesOf(const Call &call, int64_t iteration, std::span<const int64_t> slots) {
  std::vector<int64_t> bases;
  bases.reserve(call.segments.size());
  for (const auto &[slot, offset, stride] : call.segments)
    bases.push_back(offset + iteration * stride + (slot < 0 ? 0 : slots[slot]));
  return bases;
}

// --- Joins of a run -----------------------------------------------------------------------------------------------

std::vector<Join> joinsOf(std::span<const RunWork> run) {
  if (std::ranges::all_of(run, [](const RunWork &work) { return work.lane == JoinPoints::kMain; }))
    return {};
  JoinPoints points;
  std::vector<Join> joins;
  const auto add = [&](int64_t before, const std::vector<int64_t> &works) {
    for (int64_t work : works)
      joins.push_back({before, work});
  };
  for (int64_t i = 0; i < std::ssize(run); ++i)
    add(i, points.enqueue(i, run[i].lane, run[i].touched));
  add(std::ssize(run), points.finish());
  return joins;
}

// A join is one of all works before it in its lane.
std::vector<int64_t> turnsOf(std::span<const RunWork> run, std::span<const Join> joins) {
  std::vector<int64_t> turns = {0};
  std::map<int64_t, int64_t> joined; // by lane: behind the last work that has been waited for
  for (const auto &[before, work] : joins) {
    const int64_t lane = run[work].lane;
    const int64_t begin = std::exchange(joined[lane], work + 1);
    const bool waits = std::any_of(run.begin() + begin, run.begin() + work + 1, [&](const RunWork &one) {
      return one.lane == lane && std::holds_alternative<ExchangeRows>(one.instruction->body);
    });
    if (waits && before < std::ssize(run) && turns.back() != before)
      turns.push_back(before);
  }
  return turns;
}

} // namespace mgc::plan
