// See Engine.h.
#include "runtime/exec/Engine.h"

#include "plan/FitText.h"
#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Cores.h"
#include "runtime/base/MachineMemory.h"
#include "runtime/base/NumberText.h"
#include "runtime/comm/indevice/InDeviceWorld.h"
#include "runtime/comm/nccl/StagedHosts.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/DeviceRates.h"
#include "runtime/exec/EngineRank.h"
#include "runtime/exec/MachineRates.h"
#include "runtime/exec/ProcessReports.h"
#include "runtime/exec/RankThreads.h"
#include "runtime/exec/VerifyKernels.h"
#include "runtime/exec/VerifyMemory.h"
#include "runtime/kernels/GemmNative.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>

namespace mgc {

namespace {

class RankEngine final : public Engine {
public:
  RankEngine(plan::Plan plan, EngineOptions options) : plan_(std::move(plan)), options_(std::move(options)) {}
  ~RankEngine() override;
  Status load(const std::string &bundle);

  const plan::Plan &plan() const override { return plan_; }
  std::span<std::byte *const> arenas() const override { return arenas_; }
  bool arenasAreZero() const override {
    return !options_.poison || (!isOnHost() && std::ranges::all_of(plan_.stages, [](const plan::StagePlan &stage) {
      return stage.hostBytes == 0; // the one part of a device's arena that is poisoned here
    }));
  }
  Status upload(Part part) override;
  Status download(Part part) override;
  Communicator *hosts() override { return staged_ ? staged_.get() : options_.communicator; }
  int threadsPerRank() const override { return threadsPerRank_; }
  std::string whereRanksAre() const override;
  std::vector<std::string> notes() const override { return choices_ ? choices_->notes() : notes_; }
  std::optional<DeviceMemory> deviceMemory() const override;
  const Recording &recording() const override { return recording_; }
  Result<MachineRates> measureRates() override {
    return isOnHost() ? mgc::measureRates(*this) : measureDeviceRates(*device_, plan_.dtype);
  }
  void onRanks(const std::function<void(int64_t)> &work) override {
    threads_.run([&](int64_t i) { work(ranks_[i]->index()); });
  }
  Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                          const std::function<Status()> &beforeUpdate, const Accepts &accepts) override;
  void readAhead(NextBatch next) override { nextBatch_ = std::move(next); }
  StepResult results() const override { return resultOf(ranks_[0]->values(), terms_); }
  void abort(const Status &cause) override;
  Result<int32_t> greatest(int32_t own) override;

private:
  bool isOnHost() const { return isOnHost_; }
  Status openDevice();
  std::string describeCollectives() const;
  int64_t ranksHere() const { return isProcessRank() ? 1 : plan_.mesh.worldSize(); }
  int64_t ranksOnCores() const { return ranksHere() * options_.cores.parts; }
  bool haveOwnCores() const { return ranksOnCores() * threadsPerRank_ <= std::ssize(cores_); }
  void pinToShare(int64_t local) const;
  Status chooseBf16();
  bool isProcessRank() const { return options_.communicator != nullptr; } // the other ranks are processes
  std::vector<int64_t> localRanks() const;
  int64_t bytesOf(int64_t rank) const { return plan_.stages[plan::stageOf(plan_.mesh, rank)].bytes; }
  Status openHosts();
  Result<std::function<Status()>> barrierOf(Communicator &communicator);
  Status collectValues(const GlobalBatch &batch); // from all ranks
  Status checkMemory();
  Status openCommunicators();
  Status createRanks();
  Status chooseProducts();
  Status forEachRank(const std::function<Status(EngineRank &)> &work); // on their threads; the first error
  void runStep(EngineRank &rank);
  Status stageInputs(int64_t step, const GlobalBatch &batch);
  void stageNext(int64_t step);
  Status failureOf(int64_t step) const;
  Status askToUpdate(const Accepts &accepts);
  StepResult finishStep(int64_t step, double seconds);

  const plan::Plan plan_;
  const EngineOptions options_;
  std::optional<plugin::PluginDevice> device_;
  bool isOnHost_ = false;               // mgc_device_facts::host_memory
  int64_t freeAtFirst_ = 0, spare_ = 0; // bytes of the device; spare: when the ranks have their memory
  std::unique_ptr<RowKernels> kernels_;
  std::optional<ProductChoices> choices_;          // where matrix products are measured
  std::unique_ptr<ThreadWorld> hostWorld_;         // for ranks of this process, on the host
  std::unique_ptr<InDeviceWorld> deviceWorld_;     // for ranks that share the device
  std::unique_ptr<Communicator> nccl_;             // for a process with one rank, on a device
  std::unique_ptr<Communicator> staged_;           // its hosts, which move blocks of its memory
  std::vector<Communicator *> communicators_;      // by rank of this process
  std::optional<ProcessReports> reports_;          // where ranks are processes
  std::vector<std::unique_ptr<EngineRank>> ranks_; // by rank of this process
  std::vector<std::byte *> arenas_;                // by rank of the plan
  std::vector<StepValues> values_ = std::vector<StepValues>(plan_.mesh.worldSize()); // by rank
  const std::vector<size_t> terms_ = plan::lossTermsOf(plan_);
  Recording recording_;
  StepOrder order_; // order of the step that runs
  std::atomic<bool> isUpdated_{true};
  Status stoodAt_; // for a process: why its rank ended, with its place; the cause may be another's
  NextBatch nextBatch_;
  int64_t stagedStep_ = -1; // the step whose inputs are written
  const std::vector<int> cores_ = availableCores();
  int threadsPerRank_ = 1;
  std::vector<std::string> notes_;
  RankThreads threads_; // last: they end before what they use
};

std::vector<int64_t> RankEngine::localRanks() const {
  if (isProcessRank())
    return {options_.communicator->rank()};
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < plan_.mesh.worldSize(); ++rank)
    ranks.push_back(rank);
  return ranks;
}

// To give back what a stuck device uses would wait for it: it is left to the end of the process.
RankEngine::~RankEngine() {
  if (std::ranges::none_of(ranks_, &EngineRank::isStuck)) {
    for (const std::unique_ptr<EngineRank> &rank : ranks_)
      rank->endStreams();
    return;
  }
  static auto *left = new std::vector<std::shared_ptr<void>>();
  left->push_back(std::make_shared<decltype(device_)>(std::move(device_)));
  left->push_back(std::make_shared<decltype(kernels_)>(std::move(kernels_)));
  left->push_back(std::make_shared<decltype(staged_)>(std::move(staged_)));
  left->push_back(std::make_shared<decltype(ranks_)>(std::move(ranks_)));
}

Status RankEngine::openDevice() {
  if (plan_.target == plan::Target::cpu) {
    device_ = openCpuDevice({.threads = threadsPerRank_});
  } else {
    MGC_ASSIGN(plugin, plugin::Plugin::open(std::string(nameOf(plan_.target)), options_.device.plugin));
    MGC_SET(device_, plugin.openDevice(options_.device.ordinal, options_.device.deterministic));
  }
  MGC_ASSIGN(facts, device_->describe());
  isOnHost_ = facts.host_memory != 0;
  freeAtFirst_ = facts.free_bytes;
  return Status::ok();
}

std::optional<DeviceMemory> RankEngine::deviceMemory() const {
  const Result<mgc_device_facts> facts = device_->describe();
  if (isOnHost() || !facts.isOk())
    return std::nullopt;
  int64_t ofPlan = 0;
  for (int64_t rank : localRanks())
    ofPlan += bytesOf(rank);
  return DeviceMemory{ofPlan, facts->total_bytes - freeAtFirst_, freeAtFirst_ - facts->free_bytes - ofPlan};
}

std::string RankEngine::whereRanksAre() const {
  if (isOnHost())
    return fmt::format("{} thread{} each{}", threadsPerRank_, threadsPerRank_ == 1 ? "" : "s", describeCollectives());
  const Result<mgc_device_facts> facts = device_->describe();
  return fmt::format("{} device {}, {}, with {} of its memory to spare; {}{}", ranks_.size() > 1 ? "sharing" : "on",
                     options_.device.ordinal, facts.isOk() ? facts->name : "?", bytesText(double(spare_)),
                     facts.isOk() ? facts->versions : "?", describeCollectives());
}

std::string RankEngine::describeCollectives() const {
  CollectiveCount sum;
  for (const std::unique_ptr<EngineRank> &rank : ranks_) {
    sum.all += rank->collectives().all;
    sum.overlapped += rank->collectives().overlapped;
  }
  return sum.all == 0 ? "" : fmt::format("; {} of {} collectives of a step overlap products", sum.overlapped, sum.all);
}

Status RankEngine::checkMemory() {
  MGC_ASSIGN(facts, device_->describe());
  const std::vector<int64_t> local = localRanks();
  int64_t needed = 0, most = 0;
  for (int64_t rank : local) {
    needed += bytesOf(rank);
    most = std::max(most, bytesOf(rank));
  }
  if (needed <= facts.free_bytes) {
    spare_ = facts.free_bytes - needed;
    return Status::ok();
  }
  const std::string advice =
      local.size() > 1 && most <= facts.free_bytes
          ? fmt::format("a device for each of the {} ranks would fit, which need {} at most", local.size(), inGib(most))
          : fmt::format("a layout whose ranks need {} would fit: more ranks along tp, pp or, with --zero 1, dp; or "
                        "smaller microbatches",
                        howMuchLess(most, std::max<int64_t>(facts.free_bytes, 1)));
  const std::string changes = plan::changesText(plan_);
  return errorf("device {} ({}) has too little memory: {} of the plan's ranks need {}, {} are free of {}; nothing was "
                "allocated; {}{}{}",
                options_.device.ordinal, facts.name, local.size(), inGib(needed), inGib(facts.free_bytes),
                inGib(facts.total_bytes), advice, changes.empty() ? "" : "\n",
                changes.substr(0, changes.find_last_not_of('\n') + 1));
}

// The hosts of processes, which have communicators of their own in addition to those of devices.
Status RankEngine::openHosts() {
  Communicator &hosts = *options_.communicator;
  std::vector<int64_t> all(plan_.mesh.worldSize());
  std::iota(all.begin(), all.end(), 0);
  MGC_ASSIGN(everyone, hosts.openGroup(all));
  reports_.emplace(hosts, everyone);
  if (isOnHost()) {
    communicators_ = {&hosts};
    return Status::ok();
  }
  nccl_ = makeNcclRank(*device_, {hosts.rank(), hosts.worldSize(), options_.timeout, options_.device.share,
                                  [this] { return reports_->barrier(); }, [&hosts] { return hosts.cause(); }});
  communicators_ = {nccl_.get()};
  MGC_SET(staged_, makeStagedHosts(*device_, hosts, *nccl_, options_.timeout));
  return Status::ok();
}

Status RankEngine::openCommunicators() {
  if (isProcessRank())
    return openHosts();
  const int64_t ranks = plan_.mesh.worldSize();
  if (isOnHost())
    hostWorld_ = std::make_unique<ThreadWorld>(ranks, ThreadWorldOptions{options_.timeout});
  else
    deviceWorld_ = std::make_unique<InDeviceWorld>(*device_, ranks, options_.timeout);
  for (int64_t rank = 0; rank < ranks; ++rank)
    communicators_.push_back(isOnHost() ? &hostWorld_->communicator(rank) : &deviceWorld_->communicator(rank));
  return Status::ok();
}

// At which all ranks of all processes meet, for the rank of this communicator. NCCL's asks its hosts, for all alone.
Result<std::function<Status()>> RankEngine::barrierOf(Communicator &communicator) {
  GroupId everyone = -1;
  if (!nccl_) {
    std::vector<int64_t> all(plan_.mesh.worldSize());
    std::iota(all.begin(), all.end(), 0);
    MGC_SET(everyone, communicator.openGroup(all));
  }
  return std::function<Status()>([&communicator, everyone] { return communicator.barrier(everyone); });
}

Status RankEngine::createRanks() {
  EngineRankOptions rankOptions{.isOnHost = isOnHost(),
                                .isConcurrent = options_.isConcurrent.value_or(haveOwnCores()),
                                .poison = options_.poison,
                                .graphs = !isOnHost() && options_.device.graphs && communicators_.size() == 1 &&
                                          !waitsForDevice(plan_),
                                .timeout = options_.timeout,
                                .seed = options_.seed,
                                .inject = options_.inject,
                                .timeline = options_.timeline};
  for (Communicator *communicator : communicators_) {
    MGC_SET(rankOptions.barrier, barrierOf(*communicator));
    rankOptions.prepareThread = [this, local = std::ssize(ranks_)] { pinToShare(local); };
    MGC_ASSIGN(rank, EngineRank::create(plan_, *device_, *communicator, rankOptions)
                         .at(fmt::format("rank {}", communicator->rank())));
    ranks_.push_back(std::move(rank));
    rankOptions.callsBeforeUpdate = false; // the first one does
  }
  return Status::ok();
}

// Each rank on the host has cores of its own when there are enough for all their threads. Else the system balances better.
void RankEngine::pinToShare(int64_t local) const {
  if (isOnHost() && haveOwnCores())
    stayOn(shareOf(cores_, options_.cores.index * ranksHere() + local, ranksOnCores()));
}

// Rank 0 chooses for all processes: ranks that compute the same must have the same bits.
Status RankEngine::chooseBf16() {
  Result<Bf16Choice> choice = Bf16Choice{};
  threads_.run([&](int64_t local) {
    if (ranks_[local]->index() == 0)
      choice = chooseBf16Product(*options_.bf16, threadsPerRank_, multipliesBf16());
  });
  MGC_TRY(Status(choice.status()));
  MGC_ASSIGN(chosen, greatest(static_cast<int32_t>(choice->product)));
  const auto product = static_cast<Bf16Product>(chosen);
  if (product == Bf16Product::native && !multipliesBf16())
    return errorf("rank {}: rank 0 multiplies bf16 by its processor's own products, which this processor "
                  "has not; expected --bf16-products panels for all ranks",
                  ranks_[0]->index());
  setBf16Product(product);
  if (!choice->note.empty())
    notes_.push_back(choice->note);
  return Status::ok();
}

// One rank after another: replicas must compute alike, so what one has chosen all take.
Status RankEngine::chooseProducts() {
  if (isOnHost() || !options_.device.tuneProducts)
    return Status::ok();
  MGC_SET(choices_, ProductChoices::open(*device_, options_.device.tuneCache));
  if (!isProcessRank()) {
    for (const std::unique_ptr<EngineRank> &rank : ranks_)
      MGC_TRY(rank->choose(*choices_).at(fmt::format("rank {}", rank->index())));
    return Status::ok();
  }
  for (int64_t rank = 0; rank < plan_.mesh.worldSize(); ++rank) {
    const auto choose = [&]() -> Result<std::string> {
      MGC_TRY(ranks_[0]->choose(*choices_));
      return choices_->text();
    };
    MGC_ASSIGN(chosen,
               options_.device.share(fmt::format("products of rank {}", rank), rank == ranks_[0]->index(), choose));
    MGC_TRY(choices_->adopt(chosen));
  }
  return Status::ok();
}

Status RankEngine::load(const std::string &bundle) {
  threadsPerRank_ =
      options_.threadsPerRank > 0 ? options_.threadsPerRank : threadsOfRank(cores_.size(), ranksOnCores());
  MGC_TRY(openDevice());
  MGC_SET(kernels_, RowKernels::load(plan_, bundle, *device_));
  MGC_TRY(verifyKernels(plan_, *kernels_));
  if (!isOnHost())
    MGC_TRY(checkMemory());
  MGC_TRY(openCommunicators());
  MGC_TRY(createRanks());
  MGC_TRY(chooseProducts());
  arenas_.resize(plan_.mesh.worldSize());
  for (const std::unique_ptr<EngineRank> &rank : ranks_) {
    MGC_TRY(rank->load(*kernels_, choices_ ? &*choices_ : nullptr).at(fmt::format("rank {}", rank->index())));
    arenas_[rank->index()] = rank->mirror();
    if (const Recording::Rank recording = rank->recording(); recording.timeline)
      recording_.ranks.push_back(recording);
  }
  recording_.stepSeconds.reserve(options_.timeline.measure ? kMeasuredSteps : 0);
  MGC_TRY(threads_.start(std::ssize(ranks_), [this](int64_t local) { pinToShare(local); }));
  return isOnHost() && options_.bf16 && plan_.dtype == plan::DType::bf16 ? chooseBf16() : Status::ok();
}

Status RankEngine::forEachRank(const std::function<Status(EngineRank &)> &work) {
  std::vector<Status> results(ranks_.size());
  threads_.run([&](int64_t i) { results[i] = work(*ranks_[i]); });
  for (size_t i = 0; i < results.size(); ++i)
    MGC_TRY(std::move(results[i]).at(fmt::format("rank {}", ranks_[i]->index())));
  return Status::ok();
}

Status RankEngine::upload(Part part) {
  return forEachRank([&](EngineRank &rank) { return rank.upload(part); });
}

Status RankEngine::download(Part part) {
  return forEachRank([&](EngineRank &rank) { return rank.download(part); });
}

Status RankEngine::stageInputs(int64_t step, const GlobalBatch &batch) {
  if (stagedStep_ == step)
    return Status::ok();
  MGC_TRY(checkBatch(plan_, batch));
  for (const std::unique_ptr<EngineRank> &rank : ranks_)
    rank->writeInputs(batch, step);
  stagedStep_ = step;
  return Status::ok();
}

// A batch that is bad is found again by the step that it is for.
void RankEngine::stageNext(int64_t step) {
  if (const GlobalBatch *batch = nextBatch_ ? nextBatch_(step) : nullptr)
    (void)stageInputs(step, *batch);
}

void RankEngine::runStep(EngineRank &rank) {
  if (const Status status = rank.run(order_); !status.isOk()) {
    if (isProcessRank())
      stoodAt_ = status;
    abort(status);
    rank.awaitEnd();
  }
}

// The first cause is kept. The abort of one rank is that of all ranks on its device. The hosts are told before the
// devices' communicators end, which the others' would see.
void RankEngine::abort(const Status &cause) {
  if (nccl_)
    options_.communicator->abort(cause);
  for (const std::unique_ptr<EngineRank> &rank : ranks_)
    rank->dropGraph();
  communicators_[0]->abort(cause);
}

Result<int32_t> RankEngine::greatest(int32_t own) {
  Result<int32_t> most = own;
  if (isProcessRank())
    threads_.run([&](int64_t) { most = reports_->greatest(own); });
  return most;
}

Status RankEngine::collectValues(const GlobalBatch &batch) {
  Status status;
  if (isProcessRank())
    threads_.run([&](int64_t) { status = reports_->collect(ranks_[0]->values(), batch, values_); });
  else
    std::ranges::transform(ranks_, values_.begin(),
                           [](const std::unique_ptr<EngineRank> &rank) { return rank->values(); });
  return status;
}

// Ranks that share a device have the device's error; the fault may be that of any rank that was at work.
Status RankEngine::failureOf(int64_t step) const {
  const Status cause = communicators_[0]->cause();
  if (!cause.isOk() && !stoodAt_.isOk() && stoodAt_.message().ends_with(cause.message()))
    return stoodAt_;
  const Status fault = device_->check();
  if (cause.isOk() || fault.isOk() || ranks_.size() == 1)
    return cause;
  std::vector<std::string> places;
  for (const std::unique_ptr<EngineRank> &rank : ranks_)
    if (const ExecutionPlace place = rank->place(step); !place.instruction.empty())
      places.push_back(toString(place));
  return errorf("{}: {}", fmt::join(places, ", or "), fault.message());
}

StepResult RankEngine::finishStep(int64_t step, double seconds) {
  if (options_.timeline.measures(step))
    recording_.add(seconds);
  StepResult result = results();
  result.isUpdated = isUpdated_;
  for (const std::unique_ptr<EngineRank> &rank : ranks_)
    if (!isOnHost())
      result.hostSeconds = std::max(result.hostSeconds, rank->hostSeconds());
  return result;
}

// On the thread of one rank of the process, while its others wait. All ranks have the same results, to the bit, but all the
// same would not end if one of them skipped alone.
Status RankEngine::askToUpdate(const Accepts &accepts) {
  int32_t refused = accepts(results()) ? 0 : 1;
  if (isProcessRank())
    MGC_SET(refused, reports_->greatest(refused));
  isUpdated_ = refused == 0;
  return Status::ok();
}

Result<StepResult> RankEngine::step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                    const std::function<Status()> &beforeUpdate, const Accepts &accepts) {
  MGC_TRY(failureOf(step));
  MGC_TRY(stageInputs(step, batch));
  stagedStep_ = -1; // used
  const auto start = std::chrono::steady_clock::now();
  const std::function<Status()> ask = [&] { return accepts ? askToUpdate(accepts) : Status::ok(); };
  isUpdated_ = true;
  order_ = {step, scalars, beforeUpdate ? &beforeUpdate : nullptr, accepts ? &ask : nullptr, &isUpdated_};
  const std::function<void(int64_t)> work = [this](int64_t i) { runStep(*ranks_[i]); };
  threads_.begin(work);
  stageNext(step + 1);
  threads_.end();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  MGC_TRY(failureOf(step));
  if (Status collected = collectValues(batch); !collected.isOk())
    return std::move(collected).at(fmt::format("rank {}, end of step {}", ranks_[0]->index(), step));
  MGC_TRY(verifyAgreement(values_));
  return finishStep(step, seconds.count());
}

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
        return errorf("the ranks disagree: {} is {} on rank 0, {} on rank {}", plan::kResults[i], one, other, rank);
  return Status::ok();
}

StepResult resultOf(const StepValues &values, std::span<const size_t> terms) {
  StepResult result;
  const auto of = [&](plan::StepTotal total) { return values[indexOf(total)]; };
  result.tokens = of(plan::StepTotal::tokens);
  result.gradientNorm = of(plan::StepTotal::gradNorm);
  result.loss = result.crossEntropy = static_cast<double>(of(plan::StepTotal::lossSum)) / std::max(1.0, result.tokens);
  for (size_t term : terms) {
    result.terms.push_back({plan::kResults[term], values[term]});
    result.loss += values[term];
  }
  return result;
}

Result<std::unique_ptr<Engine>> Engine::create(plan::Plan plan, const std::string &bundle, EngineOptions options) {
  auto engine = std::make_unique<RankEngine>(std::move(plan), std::move(options));
  MGC_TRY(engine->load(bundle));
  return std::unique_ptr<Engine>(std::move(engine));
}

} // namespace mgc
