// See Engine.h. One persistent thread per rank; between steps they sleep.
#include "runtime/exec/Engine.h"

#include "runtime/base/Philox.h"
#include "runtime/comm/ThreadWorld.h"
#include "runtime/exec/Cores.h"
#include "runtime/exec/Inputs.h"
#include "runtime/exec/Resolve.h"
#include "runtime/exec/VerifyKernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

namespace mgc {

namespace {

// What the ranks need for one step; set by the caller's thread while they sleep.
struct StepOrder {
  int64_t step = 0;
  const GlobalBatch *batch = nullptr;
  StepScalars scalars{};
  const std::function<Status()> *beforeUpdate = nullptr;
};

using Results = std::array<float, 3>; // as plan::kResults

// What each process says of a step, as words of 32 bits.
struct StepReport {
  Results results{};
  std::array<uint32_t, 2> batch{}; // its hash
};

struct Rank {
  int64_t index = 0;
  Buffer buffer;
  Communicator *communicator = nullptr;
  GroupId everyone = -1;
  RankRecord record;
  std::vector<InputRecord> inputs;
  std::unique_ptr<Timeline> timeline; // null: not asked for
  std::unique_ptr<RankExecutor> executor;
  std::function<Status()> beforeUpdate;
  std::thread thread;
};

class ThreadEngine final : public Engine {
public:
  ThreadEngine(plan::Plan plan, EngineOptions options)
      : plan_(std::move(plan)), options_(std::move(options)),
        world_(isAlone() ? std::make_unique<ThreadWorld>(plan_.mesh.worldSize(),
                                                         ThreadWorldOptions{options_.timeout})
                         : nullptr),
        ranks_(isAlone() ? plan_.mesh.worldSize() : 1), arenas_(plan_.mesh.worldSize()),
        reports_(isAlone() ? 0 : plan_.mesh.worldSize()) {}
  ~ThreadEngine() override;
  Status load(const std::string &bundle, Device &device);

  const plan::Plan &plan() const override { return plan_; }
  std::span<std::byte *const> arenas() const override { return arenas_; }
  int threadsPerRank() const override { return threads_; }
  const Recording &recording() const override { return recording_; }
  void onRanks(const std::function<void(int64_t)> &work) override;
  Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                          const std::function<Status()> &beforeUpdate) override;
  StepResult results() const override;
  void abort(const Status &cause) override { ranks_[0].communicator->abort(cause); }
  Result<int32_t> greatest(int32_t own) override;

private:
  bool isAlone() const { return !options_.communicator; } // all ranks are here
  int64_t worldSize() const { return plan_.mesh.worldSize(); }
  Rank &rankOf(int64_t index) { return *std::ranges::find(ranks_, index, &Rank::index); }
  Status loadRank(Rank &rank, Device &device);
  Status startThreads();
  void rankMain(Rank &rank);
  int64_t ranksOnCores() const { return static_cast<int64_t>(ranks_.size()) * options_.cores.parts; }
  void pinToShare(const Rank &rank) const;
  void runStep(Rank &rank);
  Status beforeUpdate(Rank &rank);
  void record(int64_t step, double seconds);
  Results resultsOf(const Rank &rank) const;
  Status collectReports(const GlobalBatch &batch);
  Status verifyResults() const;

  const plan::Plan plan_;
  const EngineOptions options_;
  std::unique_ptr<ThreadWorld> world_; // null: the ranks are processes
  std::unique_ptr<KernelLibrary> kernels_;
  std::vector<Rank> ranks_; // of this process
  std::vector<std::byte *> arenas_;
  std::vector<StepReport> reports_; // by rank, where ranks are processes
  Recording recording_;
  const std::vector<int> cores_ = availableCores();
  int threads_ = 1;

  std::mutex mutex_;
  std::condition_variable orderGiven_, allDone_;
  StepOrder order_; // of the step that runs
  const std::function<void(int64_t)> *work_ = nullptr;
  uint64_t orders_ = 0; // works given so far
  int64_t busy_ = 0;    // ranks that have not finished the last one
  bool ending_ = false;
};

Status ThreadEngine::load(const std::string &bundle, Device &device) {
  threads_ =
      options_.threadsPerRank > 0 ? options_.threadsPerRank : threadsOfRank(cores_.size(), ranksOnCores());
  if (!plan_.kernels.empty()) {
    MGC_ASSIGN(kernels, device.loadKernels(bundle, plan_.kernels));
    MGC_TRY(verifyKernels(plan_, *kernels));
    kernels_ = std::move(kernels);
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].communicator =
        isAlone() ? &world_->communicator(static_cast<int64_t>(i)) : options_.communicator;
    ranks_[i].index = ranks_[i].communicator->rank();
    MGC_TRY(loadRank(ranks_[i], device).at(fmt::format("rank {}", ranks_[i].index)));
  }
  recording_.stepSeconds.reserve(options_.timeline.measure ? kMeasuredSteps : 0);
  return startThreads();
}

Status ThreadEngine::loadRank(Rank &rank, Device &device) {
  MGC_ASSIGN(record, resolveRank({plan_, kernels_.get(), options_.seed}, rank.index, *rank.communicator));
  rank.record = std::move(record);
  std::vector<int64_t> all(worldSize());
  std::iota(all.begin(), all.end(), 0);
  MGC_ASSIGN(everyone, rank.communicator->openGroup(all));
  rank.everyone = everyone;
  MGC_ASSIGN(buffer, device.allocate(rank.record.stage->bytes));
  rank.buffer = std::move(buffer);
  arenas_[rank.index] = rank.buffer.data();
  rank.inputs = resolveInputs(plan_, rank.index);
  rank.beforeUpdate = [this, &rank] { return beforeUpdate(rank); };
  if (options_.timeline.trace() || options_.timeline.measure) {
    MGC_ASSIGN(timeline, Timeline::create(rank.record, options_.timeline));
    rank.timeline = std::move(timeline);
    recording_.ranks.push_back({&rank.record, rank.timeline.get()});
  }
  rank.executor =
      std::make_unique<RankExecutor>(rank.record, *rank.communicator, rank.buffer.data(),
                                     ExecutorOptions{threads_, options_.inject, rank.timeline.get()});
  return Status::ok();
}

Status ThreadEngine::startThreads() {
  for (size_t i = 0; i < ranks_.size(); ++i)
    try {
      ranks_[i].thread = std::thread([this, &rank = ranks_[i]] { rankMain(rank); });
    } catch (const std::system_error &error) {
      return errorf(
          "rank {} of {}: its thread does not start: {}; fewer ranks or a higher limit of processes "
          "(ulimit -u) would work",
          ranks_[i].index, worldSize(), error.what());
    }
  return Status::ok();
}

ThreadEngine::~ThreadEngine() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  orderGiven_.notify_all();
  for (Rank &rank : ranks_)
    if (rank.thread.joinable())
      rank.thread.join();
}

// Each rank has cores of its own when there are enough for all their threads. Else the system balances better.
void ThreadEngine::pinToShare(const Rank &rank) const {
  const auto here = static_cast<int64_t>(ranks_.size());
  if (ranksOnCores() * threads_ <= static_cast<int64_t>(cores_.size()))
    stayOn(shareOf(cores_, options_.cores.index * here + (&rank - ranks_.data()), ranksOnCores()));
}

void ThreadEngine::rankMain(Rank &rank) {
  pinToShare(rank);
  for (uint64_t seen = 0;; ++seen) {
    {
      std::unique_lock lock(mutex_);
      orderGiven_.wait(lock, [&] { return orders_ != seen || ending_; });
      if (ending_)
        return;
    }
    (*work_)(rank.index);
    std::lock_guard lock(mutex_);
    if (--busy_ == 0)
      allDone_.notify_one();
  }
}

void ThreadEngine::runStep(Rank &rank) {
  std::byte *arena = rank.buffer.data();
  for (const InputRecord &input : rank.inputs)
    writeInput(input, plan_, *order_.batch, order_.step, arena);
  std::memcpy(arena + rank.record.stage->stepScalarsOffset, order_.scalars.data(), sizeof order_.scalars);
  if (const Status status = rank.executor->run(order_.step, rank.beforeUpdate); !status.isOk())
    rank.communicator->abort(status); // keeps the first cause
}

// All ranks meet, one of each process calls, all meet: the caller sees complete gradients, and nobody changes them meanwhile.
Status ThreadEngine::beforeUpdate(Rank &rank) {
  if (!*order_.beforeUpdate)
    return Status::ok();
  MGC_TRY(rank.communicator->barrier(rank.everyone));
  if (&rank == ranks_.data())
    MGC_TRY((*order_.beforeUpdate)());
  return rank.communicator->barrier(rank.everyone);
}

void ThreadEngine::onRanks(const std::function<void(int64_t)> &work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  ++orders_;
  busy_ = static_cast<int64_t>(ranks_.size());
  orderGiven_.notify_all();
  allDone_.wait(lock, [&] { return busy_ == 0; });
}

Result<StepResult> ThreadEngine::step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                      const std::function<Status()> &beforeUpdate) {
  MGC_TRY(checkBatch(plan_, batch));
  const auto start = std::chrono::steady_clock::now();
  order_ = {step, &batch, scalars, &beforeUpdate};
  onRanks([this](int64_t rank) { runStep(rankOf(rank)); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  MGC_TRY(ranks_[0].communicator->cause());
  record(step, seconds.count());
  if (!isAlone())
    MGC_TRY(collectReports(batch));
  MGC_TRY(verifyResults());
  return results();
}

void ThreadEngine::record(int64_t step, double seconds) {
  if (!options_.timeline.measure || step < options_.timeline.measureFirst)
    return;
  if (recording_.stepSeconds.size() < kMeasuredSteps)
    recording_.stepSeconds.push_back(seconds);
  else
    recording_.stepSeconds[recording_.steps % kMeasuredSteps] = seconds;
  recording_.seconds += seconds;
  ++recording_.steps;
}

Results ThreadEngine::resultsOf(const Rank &rank) const {
  Results values;
  std::memcpy(values.data(), rank.buffer.data() + rank.record.stage->resultsOffset, sizeof values);
  return values;
}

static std::array<uint32_t, 2> hashOf(const GlobalBatch &batch) {
  const auto textOf = [](const std::vector<int32_t> &values) {
    return std::string_view(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int32_t));
  };
  return std::bit_cast<std::array<uint32_t, 2>>(hashName(textOf(batch.tokens)) * 31 +
                                                hashName(textOf(batch.labels)));
}

// Each process tells all others its results, and what data it had: each reads the data itself.
Status ThreadEngine::collectReports(const GlobalBatch &batch) {
  const StepReport own{resultsOf(ranks_[0]), hashOf(batch)};
  plan::Collective gather;
  gather.kind = plan::Collective::Kind::allGather;
  gather.type = plan::DType::i32;
  gather.chunk = sizeof own / sizeof(int32_t);
  Status status;
  onRanks([&](int64_t) {
    ranks_[0].communicator->setWaitObserver(nullptr);
    status = ranks_[0].communicator->collective(ranks_[0].everyone, gather, &own, reports_.data());
  });
  MGC_TRY(std::move(status));
  for (int64_t rank = 1; rank < worldSize(); ++rank)
    if (reports_[rank].batch != reports_[0].batch)
      return errorf(
          "rank {} was given other data than rank 0; expected the same file, and the same flags, for all",
          rank);
  return Status::ok();
}

// All ranks have the same results, to the bit: they come out of sums over all ranks, in one order.
Status ThreadEngine::verifyResults() const {
  const auto of = [&](int64_t rank) { return isAlone() ? resultsOf(ranks_[rank]) : reports_[rank].results; };
  const Results first = of(0);
  for (int64_t rank = 1; rank < worldSize(); ++rank) {
    const Results other = of(rank);
    for (size_t i = 0; i < first.size(); ++i)
      if (other[i] != first[i] && !(std::isnan(other[i]) && std::isnan(first[i])))
        return errorf("the ranks disagree: {} is {} on rank 0, {} on rank {}", plan::kResults[i], first[i],
                      other[i], rank);
  }
  return Status::ok();
}

Result<int32_t> ThreadEngine::greatest(int32_t own) {
  if (isAlone())
    return own;
  plan::Collective most;
  most.reduce = plan::ReduceKind::max;
  most.type = plan::DType::i32;
  most.chunk = 1;
  Status status;
  onRanks([&](int64_t) {
    ranks_[0].communicator->setWaitObserver(nullptr);
    status = ranks_[0].communicator->collective(ranks_[0].everyone, most, &own, &own);
  });
  MGC_TRY(std::move(status));
  return own;
}

StepResult ThreadEngine::results() const {
  const Results values = resultsOf(ranks_[0]);
  return {static_cast<double>(values[0]) / std::max(1.0, static_cast<double>(values[1])), values[1],
          values[2]};
}

} // namespace

Result<std::unique_ptr<Engine>> Engine::create(plan::Plan plan, const std::string &bundle, Device &device,
                                               EngineOptions options) {
  auto engine = std::make_unique<ThreadEngine>(std::move(plan), std::move(options));
  MGC_TRY(engine->load(bundle, device));
  return std::unique_ptr<Engine>(std::move(engine));
}

} // namespace mgc
