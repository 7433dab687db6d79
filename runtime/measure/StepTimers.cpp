// See StepTimers.h.
#include "runtime/measure/StepTimers.h"

#include <algorithm>

namespace mgc {

namespace {

using plan::Task;
using Kind = Timeline::Kind;

bool isForward(Task task) { return task == Task::forward; }
bool isBackward(Task task) { return task == Task::backward || task == Task::input || task == Task::weight; }
bool isMicrobatch(Task task) { return isForward(task) || isBackward(task); }
bool isOfGradients(Task task) { return task == Task::gradients || task == Task::reduce; }
bool isUpdate(Task task) { return task == Task::update; }
bool isNone(Task) { return false; }

// A timer is of the chunks of its tasks, with the waits for other ranks in them, and of the stage's transfers or not.
struct TimerRow {
  std::string_view name;
  int level;
  bool (*isOf)(Task);
  bool hasTransfers;
};
constexpr TimerRow kTimers[] = {{"forward-backward", 1, isMicrobatch, true}, {"forward-compute", 2, isForward, false},
                                {"backward-compute", 2, isBackward, false},  {"send-recv", 2, isNone, true},
                                {"all-grads-sync", 1, isOfGradients, false}, {"optimizer", 1, isUpdate, false}};

double seconds(const Timeline::Sum &sum) { return double(sum.own + sum.waits) * 1e-9; }

// Since the run began.
double sumOf(const TimerRow &row, const Recording::Rank &rank) {
  double sum = row.hasTransfers
                   ? seconds(rank.timeline->sumOf(Kind::transfer)) + seconds(rank.timeline->sumOf(Kind::arrival))
                   : 0;
  for (size_t chunk = 0; chunk < rank.record->chunks.size(); ++chunk) {
    const ChunkRecord &record = rank.record->chunks[chunk];
    if (row.isOf(record.chunk->task))
      for (size_t i = 0; i < record.instructions.size(); ++i)
        sum += seconds(rank.timeline->sumOf(static_cast<int64_t>(chunk), static_cast<int64_t>(i)));
  }
  return sum;
}

} // namespace

double StepTimer::least() const { return std::ranges::min(seconds); }
double StepTimer::most() const { return std::ranges::max(seconds); }

std::vector<std::vector<double>> StepTimers::read(const Recording &recording) {
  before_.resize(recording.ranks.size());
  std::vector<std::vector<double>> read;
  for (size_t rank = 0; rank < recording.ranks.size(); ++rank) {
    std::vector<double> sums;
    for (const TimerRow &row : kTimers)
      if (row.level <= level_)
        sums.push_back(sumOf(row, recording.ranks[rank]));
    sums.push_back(double(recording.ranks[rank].timeline->sumOf(Kind::step).count));
    std::vector<double> means = sums;
    if (before_[rank].empty())
      before_[rank].resize(sums.size());
    std::ranges::transform(means, before_[rank], means.begin(), std::minus());
    const double steps = std::max(1.0, means.back());
    means.pop_back();
    for (double &mean : means)
      mean /= steps;
    before_[rank] = std::move(sums);
    read.push_back(std::move(means));
  }
  return read;
}

std::vector<StepTimer> StepTimers::timersOf(const std::vector<std::vector<double>> &ofRanks) const {
  std::vector<StepTimer> timers;
  for (const TimerRow &row : kTimers)
    if (row.level <= level_) {
      StepTimer timer{std::string(row.name), {}};
      for (const std::vector<double> &values : ofRanks)
        timer.seconds.push_back(values[timers.size()]);
      timers.push_back(std::move(timer));
    }
  return timers;
}

} // namespace mgc
