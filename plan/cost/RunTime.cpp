// See RunTime.h.
#include "plan/cost/RunTime.h"

#include "plan/Expand.h"
#include "plan/PairTurns.h"
#include "plan/cost/PlanWalk.h"
#include "plan/cost/RepeatedProducts.h"
#include "plan/cost/RunWalk.h"

#include <algorithm>

namespace mgc::cost {

using plan::Chunk;
using plan::StagePlan;

RunTime &RunTime::operator+=(const RunTime &other) {
  layers += other.layers;
  units += other.units;
  return *this;
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
      if (isHostCopy(ofProgram[i]))
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
