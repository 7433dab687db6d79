// See RunTime.h.
#include "plan/cost/RunTime.h"

#include "plan/Expand.h"
#include "plan/PairTurns.h"
#include "plan/cost/PlanWalk.h"
#include "plan/cost/RepeatedProducts.h"

#include <algorithm>

namespace mgc::cost {

using plan::Chunk;
using plan::StagePlan;

RunTime &RunTime::operator+=(const RunTime &other) {
  layers += other.layers;
  units += other.units;
  return *this;
}

// --- Lanes -----------------------------------------------------------------------------------------------------------

namespace {

// The lanes of a run's works.
class RunLanes {
public:
  explicit RunLanes(const Cluster &cluster)
      : hasLanes_(plan::leavesCoresToProducts(cluster.target)), overlap_(cluster.stack.overlap) {}

  int64_t laneOf(const PricedWork &work, bool isOfUnit, int64_t id) const {
    switch (ruleOf(work, isOfUnit)) {
    case Overlap::follows:
      return isOfUnit ? kUnitsLane : kLayersLane;
    case Overlap::sliced:
      return work.collective->isGather ? kFirstSlices + id : plan::JoinPoints::kMain;
    case Overlap::waits:
      break;
    }
    return plan::JoinPoints::kMain;
  }
  bool hasSlices() const {
    return hasLanes_ &&
           std::ranges::count(std::array{overlap_.tensor, overlap_.context, overlap_.experts}, Overlap::sliced) > 0;
  }
  bool isSliced(const PricedWork &work, bool isOfUnit) const { return ruleOf(work, isOfUnit) == Overlap::sliced; }

private:
  Overlap ruleOf(const PricedWork &work, bool isOfUnit) const {
    return !work.collective || !hasLanes_ ? Overlap::waits : isOfUnit ? overlap_.units : work.collective->rule;
  }
  const bool hasLanes_;
  const StackOverlap &overlap_;
};

bool isCopy(const PricedWork &work) { return work.kind == plan::WorkKind::hostCopy; }

} // namespace

// --- A run --------------------------------------------------------------------------------------------------------

// Plays calls, with the joins of those that may have something in progress.
class RunWalk {
public:
  explicit RunWalk(const Cluster &cluster) : kernel_(cluster.stack.kernel), lanes_(cluster) {}

  // `works`: none where nothing runs concurrently.
  void call(std::span<const PricedWork> prices, const plan::ProgramWorks &works, std::span<const int64_t> bases,
            bool isOfUnit) {
    isOfUnit_ = isOfUnit;
    for (size_t i = 0; i < prices.size(); ++i, ++next_)
      if (!isCopy(prices[i]))
        play(prices[i], [&] { return works.touched(i, bases); });
  }
  // The device waits where the host needs longer for the starts of kernels than it does. Calls of units have none of their own on its
  // main stream: the host starts them along with those of the next call.
  void endCall() {
    player_.endCall();
    if (hasMain_ && kernel_ > 0)
      player_.idle(launches());
  }
  void finish() {
    player_.finish();
    launches();
  }
  // A call of which all is known.
  void jump(const ProgramTime &time, std::span<const CollectiveInProgress> left, const plan::ProgramWorks &works,
            std::span<const int64_t> bases, int64_t size, bool isOfUnit) {
    player_.add(isOfUnit, time);
    begin_ = player_.seconds();
    points_ = {}; // all that is pending is done
    for (CollectiveInProgress work : left) {
      const plan::Touched touched = works.touched(work.id, bases);
      work.id += next_;
      work.lane += work.lane >= kFirstSlices ? next_ : 0;
      points_.enqueue(work.id, work.lane, touched);
      player_.begin(std::move(work));
    }
    next_ += size;
  }

  bool isFresh() const { return !player_.isBusy() && host_ == 0; }
  const OverlapPlayer &player() const { return player_; }
  void add(bool isOfUnit, const ProgramTime &time) {
    player_.add(isOfUnit, time);
    begin_ += time.seconds();
  }

private:
  void play(const PricedWork &price, const auto &touchedBytes) {
    host_ += kernel_;
    const int64_t lane = lanes_.laneOf(price, isOfUnit_, next_);
    hasMain_ |= lane == plan::JoinPoints::kMain;
    if (lane == plan::JoinPoints::kMain && !player_.isBusy() && !lanes_.hasSlices())
      return player_.play({price, next_, lane, isOfUnit_});
    if (!player_.isBusy())
      points_ = {}; // all that is pending is done
    const plan::Touched touched = touchedBytes();
    const std::vector<int64_t> joins = points_.enqueue(next_, lane, touched);
    player_.play({price, next_, lane, isOfUnit_, lanes_.isSliced(price, isOfUnit_), joins, &touched});
  }
  // Adds them since the last call that had some.
  double launches() {
    const double seconds = std::max(0.0, host_ - (player_.seconds() - begin_));
    player_.addLaunches(isOfUnit_, seconds);
    host_ = 0, hasMain_ = false;
    begin_ = player_.seconds();
    return seconds;
  }

  const double kernel_;
  const RunLanes lanes_;
  OverlapPlayer player_;
  plan::JoinPoints points_;
  int64_t next_ = 0;      // number of the next work
  bool isOfUnit_ = false; // the call
  double host_ = 0;       // seconds that it needs for the starts of kernels, since `begin_`
  double begin_ = 0;      // where the last launches were counted
  bool hasMain_ = false;  // since then
};

static plan::ProgramWorks worksOn(const Cluster &cluster, const plan::Program &program) {
  return plan::leavesCoresToProducts(cluster.target) ? plan::ProgramWorks(cluster.mesh, program) : plan::ProgramWorks();
}

ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program, double rowBytes) {
  const plan::ProgramWorks works = worksOn(cluster, program);
  RunWalk walk(cluster);
  walk.call(pricesOf(cluster, program, rowBytes), works, works.basesApart(), false);
  walk.finish();
  return walk.player().layers();
}

// --- Chunks -------------------------------------------------------------------------------------------------------

RunTimes::RunTimes(const Cluster &cluster, const plan::Plan &plan)
    : cluster_(cluster), plan_(plan), works_(plan.programs.size()), repeated_(repeatedProducts(cluster, plan)) {
  const StackRows &rows = cluster.stack.rows;
  std::vector<double> rowBytes(plan.programs.size(), rows.optimizer);
  for (const StagePlan &stage : plan.stages)
    for (const Chunk &chunk : stage.chunks)
      for (const plan::Call &call : chunk.calls)
        if (isPerMicrobatch(chunk.task))
          rowBytes[call.program] = rows.layers;
  for (size_t i = 0; i < plan.programs.size(); ++i)
    prices_.push_back(pricesOf(cluster, plan.programs[i], rowBytes[i]));
}

const plan::ProgramWorks &RunTimes::worksOf(int64_t program) {
  std::optional<plan::ProgramWorks> &works = works_[program];
  return works ? *works : works.emplace(worksOn(cluster_, plan_.programs[program]));
}

ProgramTime RunTimes::secondsOf(int64_t program) {
  RunWalk walk(cluster_);
  walk.call(prices_[program], worksOf(program), worksOf(program).basesApart(), false);
  walk.finish();
  return ProgramTime(walk.player().layers()) += repeated_[program];
}

template <typename Visit>
void RunTimes::forEachCall(const StagePlan &stage, const Chunk &chunk, const Visit &visit) const {
  std::vector<int64_t> slots;
  for (const int64_t ring : chunk.slots)
    slots.push_back(stage.rings[ring].offsetOf(0));
  const bool isOfLayers = isPerMicrobatch(chunk.task);
  std::vector<bool> isOfUnit;
  for (const plan::Call &call : chunk.calls)
    isOfUnit.push_back(isOfLayers && plan::isOfUnit(stage, call));
  plan::forEachRun(chunk.calls.size(), chunk.repeats, [&](int64_t number, int64_t iteration) {
    visit(PlacedCall{chunk.calls[number], iteration, slots, isOfLayers, isOfUnit[number]});
  });
}

// Whether no two segments have bytes in common.
bool RunTimes::areApart(const plan::Program &program, std::span<const int64_t> bases) const {
  const std::vector<int64_t> &bytes = program.segmentBytes;
  for (size_t i = 0; i < bases.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::max(bases[i], bases[j]) < std::min(bases[i] + bytes[i], bases[j] + bytes[j]))
        return false;
  return true;
}

const RunTimes::OpenCall &RunTimes::openCall(const PlacedCall &placed) {
  const int64_t program = placed.call.program;
  const auto [known, isNew] = open_.try_emplace({program, placed.isOfUnit});
  OpenCall &open = known->second;
  if (!isNew)
    return open;
  const RunLanes lanes(cluster_);
  open.hasLanes = std::ranges::any_of(prices_[program], [&](const PricedWork &work) {
    return lanes.laneOf(work, placed.isOfUnit, 0) != plan::JoinPoints::kMain;
  });
  const plan::ProgramWorks none, &works = open.hasLanes || lanes.hasSlices() ? worksOf(program) : none;
  RunWalk walk(cluster_);
  walk.call(prices_[program], works, works.basesApart(), placed.isOfUnit);
  walk.endCall();
  open.left = walk.player().inProgress();
  open.time = placed.isOfUnit ? walk.player().units() : walk.player().layers();
  return open;
}

void RunTimes::play(const PlacedCall &placed, RunWalk &walk) {
  const int64_t program = placed.call.program;
  walk.add(placed.isOfUnit, repeated_[program]);
  if (!placed.isOfLayers || !walk.isFresh() || !jump(placed, walk))
    walk.call(prices_[program], worksOf(program), placed.bases(), placed.isOfUnit);
}

// A program of layers has many calls: it is played once for all that find nothing in progress.
bool RunTimes::jump(const PlacedCall &placed, RunWalk &walk) {
  const int64_t program = placed.call.program, size = std::ssize(prices_[program]);
  const OpenCall &open = openCall(placed);
  if (!open.hasLanes) {
    walk.jump(open.time, {}, {}, {}, size, placed.isOfUnit);
    return true;
  }
  const std::vector<int64_t> bases = placed.bases();
  // Where the host's time for kernels counts, it depends on what is left.
  if (cluster_.stack.kernel > 0 || !areApart(plan_.programs[program], bases))
    return false;
  walk.jump(open.time, open.left, worksOf(program), bases, size, placed.isOfUnit);
  return true;
}

RunTime RunTimes::secondsOf(const StagePlan &stage, const Chunk &chunk) {
  RunTime time;
  std::optional<RunWalk> walk;
  const auto finish = [&] {
    walk->finish();
    time += {walk->player().layers(), walk->player().units()};
    walk.reset();
  };
  forEachCall(stage, chunk, [&](const PlacedCall &call) {
    if (walk && chunk.task == plan::Task::gradients)
      finish();
    if (walk)
      walk->endCall();
    else
      walk.emplace(cluster_);
    play(call, *walk);
  });
  if (walk)
    finish();
  return time;
}

double RunTimes::takenBy(const Chunk &chunk) const {
  double all = 0, taken = 0; // seconds
  cost::forEachCall(chunk, [&](const plan::Call &call, int64_t runs) {
    for (const PricedWork &work : prices_[call.program]) {
      all += work.seconds * double(runs);
      taken += work.collective ? work.seconds * work.collective->taken * double(runs) : 0;
    }
  });
  return leavesCoresToProducts(cluster_.target) && all > 0 ? taken / all : 0;
}

// --- Pairs --------------------------------------------------------------------------------------------------------

namespace {

// A run of a pair.
struct PairRun {
  std::vector<const PricedWork *> prices; // by work
  std::vector<bool> isOfUnit;
  std::vector<plan::RunWork> works;
  std::vector<plan::Join> joins;
  std::vector<int64_t> turns;
  size_t nextTurn = 0, nextJoin = 0;

  void add(std::span<const PricedWork> ofProgram, const plan::ProgramWorks &programWorks,
           std::span<const int64_t> bases, bool ofUnit, const RunLanes &lanes) {
    for (size_t i = 0; i < ofProgram.size(); ++i) {
      if (isCopy(ofProgram[i]))
        continue;
      prices.push_back(&ofProgram[i]);
      isOfUnit.push_back(ofUnit);
      works.push_back({nullptr, lanes.laneOf(ofProgram[i], ofUnit, std::ssize(works)), {}});
      if (programWorks.size() > 0)
        works.back().instruction = &programWorks.instruction(i), works.back().touched = programWorks.touched(i, bases);
    }
  }
  void join() {
    joins = joinsOf(works);
    turns = turnsOf(works, joins);
  }
  // The works that this one waits for.
  std::vector<int64_t> joinsBefore(int64_t work) {
    std::vector<int64_t> joined;
    for (; nextJoin < joins.size() && joins[nextJoin].before == work; ++nextJoin)
      joined.push_back(joins[nextJoin].work);
    return joined;
  }
};

} // namespace

RunTime RunTimes::secondsOfPair(const StagePlan &stage, const Chunk &first, const Chunk &second) {
  std::array<PairRun, 2> runs;
  const RunLanes lanes(cluster_);
  OverlapPlayer player;
  double host = 0;
  for (const bool isSecond : {false, true}) {
    forEachCall(stage, isSecond ? second : first, [&](const PlacedCall &call) {
      const int64_t program = call.call.program;
      runs[isSecond].add(prices_[program], worksOf(program), call.bases(), call.isOfUnit, lanes);
      player.add(call.isOfUnit, repeated_[program]);
    });
    runs[isSecond].join();
    host += cluster_.stack.kernel * double(runs[isSecond].works.size());
  }
  for (const bool isSecond : plan::pairTurns(std::ssize(runs[0].turns), std::ssize(runs[1].turns))) {
    PairRun &run = runs[isSecond];
    int64_t work = run.turns[run.nextTurn++];
    const int64_t end = run.nextTurn == run.turns.size() ? std::ssize(run.works) : run.turns[run.nextTurn];
    for (; work < end; ++work) {
      const auto id = [&](int64_t number) { return 2 * number + isSecond; };
      std::vector<int64_t> joins = run.joinsBefore(work);
      std::ranges::transform(joins, joins.begin(), id);
      player.play({*run.prices[work], id(work), run.works[work].lane, run.isOfUnit[work],
                   lanes.isSliced(*run.prices[work], run.isOfUnit[work]), joins, &run.works[work].touched});
    }
  }
  player.finish();
  player.addLaunches(false, std::max(0.0, host - player.seconds()));
  return {player.layers(), player.units()};
}

} // namespace mgc::cost
