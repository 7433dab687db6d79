// See ProgramTime.h.
#include "plan/cost/ProgramTime.h"

#include "plan/EvenLoad.h"
#include "plan/PairTurns.h"
#include "plan/cost/InstructionTime.h"
#include "plan/cost/PlanWalk.h"

#include <algorithm>
#include <deque>

namespace mgc::cost {

using plan::Instruction;
using plan::OperandInfo;

ProgramTime &ProgramTime::operator+=(const ProgramTime &other) {
  products += other.products;
  attention += other.attention;
  rows += other.rows;
  moves += other.moves;
  launches += other.launches;
  for (size_t use = 0; use < exposed.size(); ++use) {
    exposed[use] += other.exposed[use];
    hidden[use] += other.hidden[use];
  }
  flops += other.flops;
  hostCopies += other.hostCopies;
  hiddenHostCopies += other.hiddenHostCopies;
  return *this;
}

ProgramTime ProgramTime::operator*(double times) const {
  ProgramTime product = *this;
  for (double *value : {&product.products, &product.attention, &product.rows, &product.moves, &product.launches,
                        &product.flops, &product.hostCopies, &product.hiddenHostCopies})
    *value *= times;
  for (size_t use = 0; use < exposed.size(); ++use) {
    product.exposed[use] *= times;
    product.hidden[use] *= times;
  }
  return product;
}

namespace {

// --- Bytes that an instruction touches -------------------------------------------------------------------------

struct TouchedBytes {
  int64_t segment = 0, begin = 0, end = 0;
  bool isWritten = false;
};

std::vector<TouchedBytes> bytesTouched(const plan::Mesh &mesh, const Instruction &instruction) {
  const std::vector<OperandInfo> infos = operandsOf(mesh, instruction.body);
  std::vector<TouchedBytes> touched;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const plan::Operand &operand = instruction.operands[i];
    touched.push_back(
        {operand.segment, operand.offset, operand.offset + infos[i].span().value_or(0), infos[i].isWritten()});
  }
  return touched;
}

bool collide(const TouchedBytes &a, const TouchedBytes &b) {
  return a.segment == b.segment && (a.isWritten || b.isWritten) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

bool collide(const std::vector<TouchedBytes> &some, const std::vector<TouchedBytes> &others) {
  return std::ranges::any_of(some, [&](const TouchedBytes &a) {
    return std::ranges::any_of(others, [&](const TouchedBytes &b) { return collide(a, b); });
  });
}

// --- Collectives parallel to products --------------------------------------------------------------------------

size_t useOf(const plan::Mesh &mesh, const plan::InstructionBody &body, const plan::RankGroup &group) {
  if (std::holds_alternative<plan::ExchangeRows>(body))
    return kRowExchanges;
  if (!group.stages.empty())
    return size_t(plan::AxisRole::stage);
  size_t outermost = 0;
  const plan::Axes names = primitiveAxes(mesh, group.axes);
  for (const plan::Axis &axis : mesh.axes)
    if (std::ranges::find(names, axis.name) != names.end())
      outermost = std::max(outermost, size_t(axis.role));
  return outermost;
}

double &partOf(ProgramTime &time, plan::WorkKind kind) {
  switch (kind) {
  case plan::WorkKind::product:
    return time.products;
  case plan::WorkKind::attention:
    return time.attention;
  case plan::WorkKind::row:
    return time.rows;
  default:
    return time.moves;
  }
}

// The rule of a stack for collectives of a use.
Overlap overlapOf(const SoftwareStack &stack, size_t use) {
  if (use == kRowExchanges || use == size_t(plan::AxisRole::data))
    return stack.overlap.experts;
  return use == size_t(plan::AxisRole::sequence) ? stack.overlap.context : stack.overlap.tensor;
}

bool hasSlices(const StackOverlap &overlap) {
  return std::ranges::count(std::array{overlap.tensor, overlap.context, overlap.experts}, Overlap::sliced) > 0;
}

// The rest that a player needs of a collective.
struct PricedCollective {
  size_t use = 0;
  double taken = 0; // share of the units
  int64_t ranks = 1;
  bool isGather = false; // for what follows; others are of what came before
};

// An instruction with its price, or the end of a call, which waits for the call's collectives.
struct PricedWork {
  plan::WorkKind kind = plan::WorkKind::move;
  double seconds = 0, flops = 0;
  std::optional<PricedCollective> collective = {};
  std::vector<TouchedBytes> touched = {};
  int64_t call = 0; // no two calls touch the same bytes here
  bool endsCall = false;
};

// A collective in progress.
struct PendingWork {
  double left;
  PricedCollective collective;
  std::vector<TouchedBytes> touched;
  int64_t call;
  bool isInWayOf(const PricedWork &work) const {
    return call == work.call && (work.endsCall || collide(touched, work.touched));
  }
};

// How many of the first are done when the work, which none of them hides, begins: those that it must wait for, and
// those before them.
int64_t countJoined(const std::deque<PendingWork> &pending, const PricedWork &work) {
  const auto last =
      std::find_if(pending.rbegin(), pending.rend(), [&](const PendingWork &one) { return one.isInWayOf(work); });
  return pending.rend() - last;
}

// Plays works one after the other, with concurrent collectives if the target and the stack allow.
class ProgramPlayer {
public:
  ProgramPlayer(const Cluster &cluster, ProgramTime &time)
      : stack_(cluster.stack), isBeside_(plan::leavesCoresToProducts(cluster.target)),
        slices_(hasSlices(stack_.overlap)), time_(time) {}

  bool needsTouched(bool isCollective) const { return isBeside_ && (slices_ || isCollective || !pending_.empty()); }
  void play(PricedWork work) {
    if (work.collective)
      return begin(std::move(work));
    for (int64_t left = countJoined(pending_, work); left > 0; --left)
      expose();
    partOf(time_, work.kind) += work.endsCall ? 0 : work.seconds;
    const bool hides = hidesCollectives(work.kind) && !work.endsCall;
    product_ = hides ? Product{&partOf(time_, work.kind), work.seconds, work.touched} : Product();
    for (auto gather = gathers_.begin(); gather != gathers_.end();)
      if (gather->isInWayOf(work)) {
        hideSlices(*gather);
        gather = gathers_.erase(gather);
      } else {
        ++gather;
      }
    if (!hides)
      return;
    time_.flops += work.flops;
    while (product_.left > 0 && !pending_.empty()) {
      hide(pending_.front(), pending_.front().left);
      if (pending_.front().left <= 0)
        pending_.pop_front();
    }
  }

private:
  void begin(PricedWork work) {
    PendingWork begun{work.seconds, *work.collective, std::move(work.touched), work.call};
    const Overlap rule = isBeside_ ? overlapOf(stack_, begun.collective.use) : Overlap::waits;
    if (rule == Overlap::follows)
      pending_.push_back(std::move(begun));
    else if (rule == Overlap::sliced && begun.collective.isGather)
      gathers_.push_back(std::move(begun));
    else if (rule == Overlap::sliced) {
      if (!collide(begun.touched, product_.touched))
        product_ = {};
      hideSlices(begun);
    } else
      time_.exposed[begun.collective.use] += begun.left;
  }
  // Concurrently with what is left of the product, which takes longer by the units that the collective has.
  void hide(PendingWork &work, double most) {
    const double share = 1 - work.collective.taken;
    const double part = std::min(most, product_.left / share);
    time_.hidden[work.collective.use] += part;
    *product_.part += part * work.collective.taken;
    work.left -= part;
    product_.left -= part * share;
  }
  // The first slice is waited for, or the last.
  void hideSlices(PendingWork &work) {
    if (product_.left > 0)
      hide(work, work.left * (1 - 1 / double(work.collective.ranks)));
    time_.exposed[work.collective.use] += work.left;
  }
  void expose() {
    time_.exposed[pending_.front().collective.use] += pending_.front().left;
    pending_.pop_front();
  }

  struct Product {
    double *part = nullptr; // to which its seconds were added
    double left = 0;        // seconds concurrent with which nothing was yet
    std::vector<TouchedBytes> touched = {};
  };
  const SoftwareStack &stack_;
  const bool isBeside_, slices_;
  ProgramTime &time_;
  std::deque<PendingWork> pending_;
  std::vector<PendingWork> gathers_; // in slices, for the product that takes them
  Product product_;                  // the last to run, where nothing else ran since
};

// `rowBytes`: see secondsOf of a program.
PricedWork priced(const Cluster &cluster, const Instruction &instruction, const plan::EvenLoad &load,
                  double rowBytes = 1) {
  plan::Work work = load.workOf(instruction);
  if (kindOf(instruction.body) == plan::WorkKind::row)
    work.bytes *= rowBytes;
  PricedWork priced{kindOf(instruction.body), secondsOf(cluster, instruction.body, work), work.flops};
  if (const std::optional<plan::RankGroup> group = groupOf(instruction.body)) {
    const plan::Communication moved = communicationOf(cluster.mesh, instruction.body);
    const double taken = double(unitsTaken(cluster, instruction.body)) / double(cluster.machine.products.units);
    priced.collective = {useOf(cluster.mesh, instruction.body, *group), taken, membersOf(cluster, *group).back(),
                         moved.operation == plan::nameOf(plan::Collective::Kind::allGather)};
  }
  return priced;
}

// --- Pairs ------------------------------------------------------------------------------------------------------

std::vector<PricedWork> worksOf(const Cluster &cluster, const plan::Plan &plan, const plan::Chunk &chunk,
                                int64_t firstCall) {
  std::vector<PricedWork> works;
  for (const plan::Call &call : plan::expandedCalls(chunk)) {
    const plan::Program &program = plan.programs[call.program];
    const plan::EvenLoad load(cluster.mesh, program, cluster.imbalance);
    forEachInstruction(program, [&](const Instruction &instruction) {
      works.push_back(priced(cluster, instruction, load, cluster.stack.rows.layers));
      works.back().touched = bytesTouched(cluster.mesh, instruction);
      works.back().call = firstCall;
    });
    works.push_back({.call = firstCall++, .endsCall = true});
  }
  return works;
}

int64_t countKernels(const std::vector<PricedWork> &works) {
  return std::ranges::count(works, false, &PricedWork::endsCall);
}

// Where the turns of a run begin (plan/PairTurns.h), as the runtime finds them at load.
std::vector<size_t> turnsOf(const std::vector<PricedWork> &works) {
  std::vector<size_t> turns = {0};
  std::deque<PendingWork> pending;
  for (size_t i = 0; i < works.size(); ++i) {
    if (works[i].endsCall)
      continue;
    if (works[i].collective) {
      pending.push_back({0, *works[i].collective, works[i].touched, works[i].call});
      continue;
    }
    bool waits = false;
    for (int64_t left = countJoined(pending, works[i]); left > 0; --left, pending.pop_front())
      waits |= pending.front().collective.use == kRowExchanges;
    if (waits && i > 0)
      turns.push_back(i);
  }
  return turns;
}

} // namespace

ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, double rowBytes) {
  ProgramTime time;
  ProgramPlayer player(cluster, time);
  const plan::EvenLoad load(cluster.mesh, program, cluster.imbalance);
  double host = 0; // seconds that it needs for the launches
  forEachInstruction(program, [&](const Instruction &instruction) {
    if (kindOf(instruction.body) == plan::WorkKind::hostCopy)
      return;
    host += cluster.stack.kernel;
    PricedWork work = priced(cluster, instruction, load, rowBytes);
    if (player.needsTouched(work.collective.has_value()))
      work.touched = bytesTouched(cluster.mesh, instruction);
    player.play(std::move(work));
  });
  player.play({.endsCall = true});
  time.launches += std::max(0.0, host - time.seconds());
  return time;
}

std::vector<double> secondsOfInstructions(const Cluster &cluster, const plan::Program &program) {
  const plan::EvenLoad load(cluster.mesh, program, cluster.imbalance);
  std::vector<double> seconds;
  for (const Instruction &instruction : program.instructions)
    seconds.push_back(priced(cluster, instruction, load).seconds);
  return seconds;
}

ProgramTime secondsOfPair(const Cluster &cluster, const plan::Plan &plan, const plan::Chunk &first,
                          const plan::Chunk &second) {
  std::array<std::vector<PricedWork>, 2> works = {
      worksOf(cluster, plan, first, 0),
      worksOf(cluster, plan, second, plan::runCount(first.calls.size(), first.repeats))};
  const std::array<std::vector<size_t>, 2> turns = {turnsOf(works[0]), turnsOf(works[1])};
  std::array<size_t, 2> next = {};
  ProgramTime time;
  ProgramPlayer player(cluster, time);
  const double host = cluster.stack.kernel * double(countKernels(works[0]) + countKernels(works[1]));
  for (const bool isSecond : plan::pairTurns(std::ssize(turns[0]), std::ssize(turns[1]))) {
    const size_t turn = next[isSecond]++;
    const size_t end = turn + 1 == turns[isSecond].size() ? works[isSecond].size() : turns[isSecond][turn + 1];
    for (size_t i = turns[isSecond][turn]; i < end; ++i)
      player.play(std::move(works[isSecond][i]));
  }
  time.launches += std::max(0.0, host - time.seconds());
  return time;
}

ProgramTime secondsOf(const plan::Chunk &chunk, const std::vector<ProgramTime> &programs) {
  ProgramTime time;
  forEachCall(chunk, [&](const plan::Call &call, int64_t runs) { time += programs[call.program] * double(runs); });
  return time;
}

} // namespace mgc::cost
