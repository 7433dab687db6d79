// See Engine.h. The engine whose ranks are threads that share the memory of this process.
#include "runtime/exec/Engine.h"

#include "runtime/base/Cores.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "runtime/data/Inputs.h"
#include "runtime/exec/MachineRates.h"
#include "runtime/exec/ProcessReports.h"
#include "runtime/exec/RankThreads.h"
#include "runtime/exec/Resolve.h"
#include "runtime/exec/VerifyKernels.h"
#include "runtime/kernels/GemmNative.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

namespace mgc {

namespace {

// The arguments of one step for the ranks; the caller's thread sets them while the ranks sleep.
struct StepOrder {
  int64_t step = 0;
  const GlobalBatch *batch = nullptr;
  StepScalars scalars{};
  const std::function<Status()> *beforeUpdate = nullptr;
};

struct Rank {
  int64_t index = 0;
  Allocation buffer;
  Communicator *communicator = nullptr;
  GroupId everyone = -1;
  RankRecord record;
  std::vector<InputRecord> inputs;
  std::unique_ptr<Timeline> timeline; // null: not asked for
  std::unique_ptr<RankExecutor> executor;
  std::function<Status()> beforeUpdate;
};

class ThreadEngine final : public Engine {
public:
  ThreadEngine(plan::Plan plan, EngineOptions options)
      : plan_(std::move(plan)), options_(std::move(options)),
        world_(isAlone() ? std::make_unique<ThreadWorld>(plan_.mesh.worldSize(),
                                                         ThreadWorldOptions{options_.timeout})
                         : nullptr),
        ranks_(isAlone() ? plan_.mesh.worldSize() : 1), arenas_(plan_.mesh.worldSize()) {}
  Status load(const std::string &bundle, Device &device);

  const plan::Plan &plan() const override { return plan_; }
  std::span<std::byte *const> arenas() const override { return arenas_; }
  int threadsPerRank() const override { return threadsPerRank_; }
  std::string whereRanksAre() const override {
    return fmt::format("{} thread{} each", threadsPerRank_, threadsPerRank_ == 1 ? "" : "s");
  }
  std::vector<std::string> notes() const override { return notes_; }
  const Recording &recording() const override { return recording_; }
  Result<MachineRates> measureRates() override { return mgc::measureRates(*this); }
  void onRanks(const std::function<void(int64_t)> &work) override {
    threads_.run([&](int64_t local) { work(ranks_[local].index); });
  }
  Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                          const std::function<Status()> &beforeUpdate) override;
  StepResult results() const override;
  void abort(const Status &cause) override { ranks_[0].communicator->abort(cause); }
  Result<int32_t> greatest(int32_t own) override;

private:
  bool isAlone() const { return !options_.communicator; } // all ranks are here
  int64_t worldSize() const { return plan_.mesh.worldSize(); }
  Status loadRank(Rank &rank, Device &device);
  Status chooseBf16();
  int64_t ranksOnCores() const { return static_cast<int64_t>(ranks_.size()) * options_.cores.parts; }
  void pinToShare(int64_t local) const;
  void runStep(Rank &rank);
  Status beforeUpdate(Rank &rank);
  StepValues valuesOf(const Rank &rank) const;
  Status collectValues(const GlobalBatch &batch); // of all ranks

  const plan::Plan plan_;
  const EngineOptions options_;
  std::unique_ptr<ThreadWorld> world_; // null: the ranks are processes
  std::unique_ptr<KernelLibrary> kernels_;
  std::vector<Rank> ranks_; // of this process
  std::vector<std::byte *> arenas_;
  std::optional<ProcessReports> reports_; // where ranks are processes
  std::vector<StepValues> values_ =
      std::vector<StepValues>(plan_.mesh.worldSize()); // of the last step, by rank
  Recording recording_;
  const std::vector<int> cores_ = availableCores();
  int threadsPerRank_ = 1;
  std::vector<std::string> notes_;
  StepOrder order_;     // of the step that runs
  RankThreads threads_; // last: they end before what they use
};

Status ThreadEngine::load(const std::string &bundle, Device &device) {
  MGC_TRY(device.accepts(plan_));
  threadsPerRank_ =
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
  if (!isAlone())
    reports_.emplace(*ranks_[0].communicator, ranks_[0].everyone);
  recording_.stepSeconds.reserve(options_.timeline.measure ? kMeasuredSteps : 0);
  MGC_TRY(threads_.start(static_cast<int64_t>(ranks_.size()), [this](int64_t local) { pinToShare(local); }));
  return options_.bf16 && plan_.dtype == plan::DType::bf16 ? chooseBf16() : Status::ok();
}

// Rank 0 chooses for all processes: ranks that compute the same must have the same bits.
Status ThreadEngine::chooseBf16() {
  Result<Bf16Choice> choice = Bf16Choice{};
  threads_.run([&](int64_t local) {
    if (ranks_[local].index == 0)
      choice = chooseBf16Product(*options_.bf16, threadsPerRank_, multipliesBf16());
  });
  MGC_TRY(Status(choice.status()));
  MGC_ASSIGN(chosen, greatest(static_cast<int32_t>(choice->product)));
  const auto product = static_cast<Bf16Product>(chosen);
  if (product == Bf16Product::native && !multipliesBf16())
    return errorf("rank {}: rank 0 multiplies bf16 by its processor's own products, which this processor "
                  "has not; expected --bf16-products panels for all ranks",
                  ranks_[0].index);
  setBf16Product(product);
  if (!choice->note.empty())
    notes_.push_back(choice->note);
  return Status::ok();
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
                                     ExecutorOptions{threadsPerRank_, options_.inject, rank.timeline.get()});
  return Status::ok();
}

// Each rank has cores of its own when there are enough for all their threads. Else the system balances better.
void ThreadEngine::pinToShare(int64_t local) const {
  const auto here = static_cast<int64_t>(ranks_.size());
  if (ranksOnCores() * threadsPerRank_ <= static_cast<int64_t>(cores_.size()))
    stayOn(shareOf(cores_, options_.cores.index * here + local, ranksOnCores()));
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

Result<StepResult> ThreadEngine::step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                      const std::function<Status()> &beforeUpdate) {
  MGC_TRY(checkBatch(plan_, batch));
  const auto start = std::chrono::steady_clock::now();
  order_ = {step, &batch, scalars, &beforeUpdate};
  threads_.run([this](int64_t local) { runStep(ranks_[local]); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  MGC_TRY(ranks_[0].communicator->cause());
  if (options_.timeline.measure && step >= options_.timeline.measureFirst)
    recording_.add(seconds.count());
  if (Status collected = collectValues(batch); !collected.isOk())
    return std::move(collected).at(fmt::format("rank {}, end of step {}", ranks_[0].index, step));
  MGC_TRY(verifyAgreement(values_));
  return results();
}

StepValues ThreadEngine::valuesOf(const Rank &rank) const {
  StepValues values;
  std::memcpy(values.data(), rank.buffer.data() + rank.record.stage->resultsOffset, sizeof values);
  return values;
}

Status ThreadEngine::collectValues(const GlobalBatch &batch) {
  if (isAlone()) {
    std::ranges::transform(ranks_, values_.begin(), [this](const Rank &rank) { return valuesOf(rank); });
    return Status::ok();
  }
  Status status;
  threads_.run([&](int64_t) { status = reports_->collect(valuesOf(ranks_[0]), batch, values_); });
  return status;
}

Result<int32_t> ThreadEngine::greatest(int32_t own) {
  Result<int32_t> most = own;
  if (!isAlone())
    threads_.run([&](int64_t) { most = reports_->greatest(own); });
  return most;
}

StepResult ThreadEngine::results() const { return resultOf(valuesOf(ranks_[0])); }

} // namespace

void Recording::add(double step) {
  if (stepSeconds.size() < kMeasuredSteps)
    stepSeconds.push_back(step);
  else
    stepSeconds[steps % kMeasuredSteps] = step;
  seconds += step;
  ++steps;
}

Status verifyAgreement(std::span<const StepValues> ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < ranks[0].size(); ++i)
      if (const float one = ranks[0][i], other = ranks[rank][i];
          other != one && !(std::isnan(other) && std::isnan(one)))
        return errorf("the ranks disagree: {} is {} on rank 0, {} on rank {}", plan::kResults[i], one, other,
                      rank);
  return Status::ok();
}

StepResult resultOf(const StepValues &values) {
  return {static_cast<double>(values[0]) / std::max(1.0, static_cast<double>(values[1])), values[1],
          values[2]};
}

Result<std::unique_ptr<Engine>> Engine::create(plan::Plan plan, const std::string &bundle, Device &device,
                                               EngineOptions options) {
  auto engine = std::make_unique<ThreadEngine>(std::move(plan), std::move(options));
  MGC_TRY(engine->load(bundle, device));
  return std::unique_ptr<Engine>(std::move(engine));
}

} // namespace mgc
