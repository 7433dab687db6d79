// See InFlight.h. Two rounds of as many microbatches as stages fill every pipeline: behind them each round adds as many as the one
// before, none, or all that it has.
#include "planner/search/InFlight.h"

#include "compiler/schedule/Schedule.h"

#include <algorithm>
#include <numeric>

namespace mgc::planner {

namespace {

std::vector<int64_t> mostOf(const schedule::Order &order, int64_t chunks) {
  std::vector<int64_t> now(static_cast<size_t>(chunks)), most = now;
  int64_t inAll = 0, mostInAll = 0;
  for (const schedule::ScheduledTask &task : order) {
    const int64_t change = task.kind == schedule::TaskKind::forward ? 1 : -schedule::makesGradient(task.kind);
    now[size_t(task.chunk)] += change, inAll += change;
    if (inAll > mostInAll)
      mostInAll = inAll, most = now;
  }
  return most;
}

InFlight::Counts countsOf(const std::string &name, const schedule::Shape &pipeline) {
  InFlight::Counts counts;
  const Result<const schedule::ScheduleRow *> row = schedule::findSchedule(name, pipeline);
  schedule::Problem problem;
  problem.schedule = name, problem.shape = pipeline;
  if (!row.isOk() || (*row)->byTime)
    return InFlight::Counts(size_t(pipeline.stages), std::vector<int64_t>(size_t(pipeline.virtualStages)));
  for (const schedule::Order &order : (*row)->orders(problem))
    counts.push_back(mostOf(order, pipeline.virtualStages));
  return counts;
}

} // namespace

InFlight::Counts InFlight::of(const std::string &schedule, const schedule::Shape &pipeline) {
  const int64_t round = pipeline.stages, all = pipeline.microbatches;
  const int64_t few = all < 4 * round ? all : 3 * round + all % round;
  const auto [entry, isNew] = known_.try_emplace({schedule, pipeline.stages, pipeline.virtualStages, few});
  Known &known = entry->second;
  const auto ofMicrobatches = [&](int64_t microbatches) {
    schedule::Shape shape = pipeline;
    shape.microbatches = microbatches;
    return countsOf(schedule, shape);
  };
  if (isNew)
    known.counts = ofMicrobatches(few);
  if (all > few && known.growth.empty()) {
    known.growth = ofMicrobatches(few - round);
    for (size_t stage = 0; stage < known.growth.size(); ++stage)
      for (size_t chunk = 0; chunk < known.growth[stage].size(); ++chunk)
        known.growth[stage][chunk] = std::max<int64_t>(0, known.counts[stage][chunk] - known.growth[stage][chunk]);
  }
  Counts counts = known.counts;
  for (size_t stage = 0; stage < known.growth.size() && all > few; ++stage)
    for (size_t chunk = 0; chunk < counts[stage].size(); ++chunk)
      counts[stage][chunk] += known.growth[stage][chunk] * ((all - few) / round);
  return counts;
}

} // namespace mgc::planner
