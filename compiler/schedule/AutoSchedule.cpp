// See AutoSchedule.h. A portfolio: the orders of the fixed rows, and list schedules by many patterns and rules. The candidates
// under the cap are timed, and the fastest is taken; of equal ones, the one whose slowest stage is done first.
//
// The best schedules are improved: a list schedule by the starts of a schedule is similar to it, and starts tasks that are
// ready earlier. Waits for reused memory show only in a solution, so the best candidates are simulated, until one takes no
// longer than it was timed.
//
// All pairs of a pattern and rules would take too long for many microbatches. A schedule of few microbatches tells most, so the
// search goes over few, and only its best pairs are scheduled for all.
#include "compiler/schedule/AutoSchedule.h"

#include "compiler/schedule/Pattern.h"
#include "plan/play/Player.h"
#include "plan/play/SolutionLists.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace mgc::schedule {
namespace {

// --- The orders of fixed rows ---

// A backward as its halves, one after the other, and no pairs.
std::vector<Order> inHalves(const std::vector<Order> &orders) {
  std::vector<Order> halves;
  for (const Order &order : orders) {
    Order &own = halves.emplace_back();
    for (ScheduledTask task : order) {
      const bool isWhole = task.kind == TaskKind::backward;
      task.kind = isWhole ? TaskKind::input : task.kind;
      task.paired = false;
      own.push_back(task);
      if (isWhole)
        own.push_back({TaskKind::weight, task.chunk, task.microbatch});
    }
  }
  return halves;
}

void addRows(const Problem &problem, const TaskTimes &times, int64_t cap, std::vector<TimedOrders> &found) {
  const Shape &shape = problem.shape;
  for (const ScheduleRow &row : schedules()) {
    const bool isPlaced = shape.virtualStages == 1 || row.placement == shape.placement;
    if (row.byTime || !isPlaced || shape.virtualStages < row.minVirtualStages ||
        shape.virtualStages > row.maxVirtualStages)
      continue;
    std::vector<Order> orders = inHalves(row.orders(problem));
    if (peakOf(orders) <= cap)
      found.push_back(timed(shape, times, std::move(orders)));
  }
}

// --- Patterns ---

// The stretch with which a pattern holds `cap` chunks.
double stretchFor(const Shape &shape, const TaskTimes &times, double lean, int64_t cap) {
  double low = 0, high = 1;
  while (inFlight(shape, patternOf(shape, times, high, lean)) < double(cap) && high < 1e6)
    high *= 2;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (inFlight(shape, patternOf(shape, times, middle, lean)) <= double(cap) ? low : high) = middle;
  }
  return low;
}

// Patterns of a V that hold about `cap` chunks, those with the most first.
void addSpacings(int64_t stages, int64_t cap, std::vector<Pattern> &patterns) {
  constexpr int64_t mostSum = 12, mostSums = 2;
  int64_t sums = 0;
  for (int64_t sum = mostSum; sum > 1 && sums < mostSums; --sum) { // down + out = up + back: as much on every stage
    if (double(2 * sum * stages) / 6 > 1.1 * double(cap))
      continue;
    ++sums;
    for (int64_t down : std::set{std::max<int64_t>(sum / 3, 1), (sum + 1) / 2, 2 * sum / 3})
      for (int64_t up : std::set{std::max<int64_t>(sum / 6, 1), sum / 2, 5 * sum / 6})
        if (auto found = patternOf(stages, {down, up, sum - up, sum - down}))
          patterns.push_back(std::move(*found));
  }
}

std::vector<Pattern> patternsFor(const Shape &shape, const TaskTimes &times, int64_t cap) {
  std::vector<Pattern> patterns;
  const std::vector<double> leans = shape.virtualStages > 1 ? std::vector{-0.4, 0.2} : std::vector{0.0};
  for (double lean : leans) {
    const double stretch = stretchFor(shape, times, lean, cap);
    for (double share : {1.1, 1.0, 0.95, 0.9, 0.8, 0.65})
      patterns.push_back(patternOf(shape, times, share * stretch, lean));
  }
  if (shape.virtualStages == 2 && shape.placement == ChunkPlacement::v)
    addSpacings(shape.stages, cap, patterns);
  return patterns;
}

// --- The search ---

class Search {
public:
  Search(const Shape &shape, const TaskTimes &times, int64_t cap)
      : shape(shape), times(times), cap(cap), patterns(patternsFor(shape, times, cap)) {
    few = shape;
    few.microbatches = std::min(shape.microbatches, shape.stages + 8);
  }

  void run(std::vector<TimedOrders> &results) {
    for (const auto &[ahead, patience] : {std::pair(0.34, 0.5), {1.0, 0.0}})
      for (size_t pattern = 0; pattern < patterns.size(); ++pattern)
        tryFew({pattern, ahead, patience});
    std::vector<Try> found = bestOf(2);
    for (const Try &one : found)
      for (double ahead : {0.0, 0.34, 1.0, 3.0, double(INFINITY)})
        for (double patience : {0.0, 0.5, 1.0})
          tryFew({one.pattern, ahead, patience});
    for (const Try &one : bestOf(6))
      if (TimedOrders whole = schedule(shape, one); whole.makespan < INFINITY)
        results.push_back(timed(shape, times, std::move(whole.orders)));
  }

private:
  struct Try {
    size_t pattern = 0;
    double ahead = 0, patience = 0;
    double makespan = INFINITY, span = INFINITY;
  };

  TimedOrders schedule(const Shape &own, const Try &one) const {
    return listSchedule(own, times, patterns[one.pattern], {cap, one.ahead, one.patience});
  }

  void tryFew(Try one) {
    const TimedOrders found = schedule(few, one);
    one.makespan = found.makespan, one.span = found.span;
    tries.push_back(one);
  }

  std::vector<Try> bestOf(size_t count) {
    std::ranges::sort(tries, {}, [](const Try &one) {
      return std::tuple(one.makespan, one.span, one.pattern, one.ahead, one.patience);
    });
    std::vector<Try> best(tries.begin(), tries.begin() + int64_t(std::min(count, tries.size())));
    std::erase_if(best, [](const Try &one) { return one.makespan == INFINITY; });
    return best;
  }

  const Shape &shape;
  Shape few; // the same with few microbatches
  const TaskTimes &times;
  const int64_t cap;
  const std::vector<Pattern> patterns;
  std::vector<Try> tries;
};

// --- Better ones ---

bool isFaster(const TimedOrders &a, const TimedOrders &b) {
  const double same = 1e-9 * b.makespan;
  return a.makespan < b.makespan - same || (a.makespan <= b.makespan + same && a.span < b.span - same);
}

// The fastest of the schedules that are similar to one, again and again.
TimedOrders improved(const Shape &shape, const TaskTimes &times, int64_t cap, TimedOrders schedule) {
  constexpr int rounds = 2;
  for (int round = 0; round < rounds; ++round) {
    const Pattern pattern = patternOf(shape, times, schedule);
    TimedOrders best = schedule;
    for (double ahead : {0.2, 0.5, 1.0})
      for (double patience : {0.0, 0.5}) {
        const TimedOrders found = listSchedule(shape, times, pattern, {cap, ahead, patience});
        if (found.makespan > best.makespan * (1 + 1e-9))
          continue; // nor is it faster where receives are posted late
        if (TimedOrders whole = timed(shape, times, found.orders); isFaster(whole, best))
          best = std::move(whole);
      }
    if (!isFaster(best, schedule))
      return schedule;
    schedule = std::move(best);
  }
  return schedule;
}

// Adds what the best become.
void improve(const Shape &shape, const TaskTimes &times, int64_t cap, std::vector<TimedOrders> &found) {
  constexpr size_t most = 2;
  std::ranges::sort(found, {}, [](const TimedOrders &one) { return std::pair(one.makespan, one.span); });
  for (size_t i = 0, count = std::min(found.size(), most); i < count; ++i)
    found.push_back(improved(shape, times, cap, found[i]));
}

// --- The choice ---

// How long the solution of the orders takes.
double played(const Problem &problem, const TaskTimes &times, const std::vector<Order> &orders) {
  Problem own = problem;
  own.orders = orders;
  Costs costs;
  costs.chunks = times.chunks;
  costs.messageLatency = times.message;
  const Result<Solution> solution = generate(own);
  return solution.isOk() ? play(listsOf(*solution, costs)).makespan : INFINITY;
}

std::vector<Order> fastest(const Problem &problem, const TaskTimes &times, std::vector<TimedOrders> found) {
  const double same = 1 + 1e-9; // the order of sums
  const int64_t tasks = 3 * problem.shape.chunks() * problem.shape.microbatches;
  const size_t most =
      problem.bytes.empty() ? 0 : size_t(std::clamp<int64_t>(100000 / tasks, 2, 12)); // a second at most
  std::ranges::sort(found, {}, [](const TimedOrders &one) { return std::pair(one.makespan, one.span); });
  size_t best = 0;
  double least = INFINITY;
  for (size_t i = 0; i < std::min(found.size(), most) && found[i].makespan * same < least; ++i)
    if (const double makespan = played(problem, times, found[i].orders); makespan * same < least)
      best = i, least = makespan;
  return std::move(found[best].orders);
}

} // namespace

int64_t capOf(const Problem &problem) {
  const Shape &shape = problem.shape;
  const int64_t unit = std::min(shape.stages, shape.microbatches) * shape.virtualStages;
  const double memory = problem.memory > 0 ? problem.memory : 0;   // no number: 0
  const double cap = std::min(memory * double(unit) + 1e-6, 1e15); // a rounded share is the share
  return std::clamp(int64_t(cap), shape.virtualStages, shape.virtualStages * shape.microbatches);
}

std::vector<Order> automatic(const Problem &problem) {
  const Shape &shape = problem.shape;
  TaskTimes times{problem.costs, problem.messageSeconds};
  if (times.chunks.empty())
    times.chunks.assign(shape.chunks(), ChunkCost());
  const int64_t cap = capOf(problem);
  const Pattern any = patternOf(shape, times, 1, 0); // a schedule that ends
  std::vector<TimedOrders> found = {timed(shape, times, listSchedule(shape, times, any, {cap, INFINITY, 0}).orders)};
  addRows(problem, times, cap, found);
  Search(shape, times, cap).run(found);
  improve(shape, times, cap, found);
  return fastest(problem, times, std::move(found));
}

} // namespace mgc::schedule
