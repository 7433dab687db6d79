#include "runtime/exec/device/DeviceEngine.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Cores.h"
#include "runtime/comm/indevice/InDeviceWorld.h"
#include "runtime/exec/MachineRates.h"
#include "runtime/exec/ProcessReports.h"
#include "runtime/exec/RankThreads.h"
#include "runtime/exec/VerifyKernels.h"
#include "runtime/exec/device/DeviceRank.h"
#include "runtime/exec/device/DeviceRates.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>

namespace mgc {

namespace {

class DeviceEngine final : public Engine {
public:
  DeviceEngine(plan::Plan plan, const DeviceOptions &device, EngineOptions options)
      : plan_(std::move(plan)), deviceOptions_(device), options_(std::move(options)) {}
  ~DeviceEngine() override;
  Status load(const std::string &bundle);

  const plan::Plan &plan() const override { return plan_; }
  std::span<std::byte *const> arenas() const override { return arenas_; }
  Status upload(Part part) override;
  Status download(Part part) override;
  int threadsPerRank() const override { return threadsPerRank_; }
  std::string whereRanksAre() const override;
  std::vector<std::string> notes() const override {
    return choices_ ? choices_->notes() : std::vector<std::string>();
  }
  std::optional<DeviceMemory> deviceMemory() const override;
  const Recording &recording() const override { return recording_; }
  Result<MachineRates> measureRates() override { return measureDeviceRates(*device_, plan_.dtype); }
  void onRanks(const std::function<void(int64_t)> &work) override {
    threads_.run([&](int64_t i) { work(ranks_[i]->index()); });
  }
  Result<StepResult> step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                          const std::function<Status()> &beforeUpdate) override;
  void readAhead(NextBatch next) override { nextBatch_ = std::move(next); }
  StepResult results() const override { return resultOf(ranks_[0]->values()); }
  void abort(const Status &cause) override;
  Result<int32_t> greatest(int32_t own) override;

private:
  Status openDevice();
  std::string describeCollectives() const;
  bool isProcessRank() const { return options_.communicator != nullptr; } // the other ranks are processes
  std::vector<int64_t> localRanks() const;
  int64_t bytesOf(int64_t rank) const { return plan_.stages[plan::stageOf(plan_.mesh, rank)].bytes; }
  Status openProcesses();
  Status collectValues(const GlobalBatch &batch); // of all ranks
  Status checkMemory() const;
  Status openCommunicators();
  Status createRanks();
  Status chooseProducts();
  Status forEachRank(const std::function<Status(DeviceRank &)> &work); // on their threads; the first error
  void runStep(DeviceRank &rank, int64_t step, const StepScalars &scalars,
               const std::function<Status()> *beforeUpdate);
  Status stageInputs(int64_t step, const GlobalBatch &batch);
  void stageNext(int64_t step);
  Status failureOf(int64_t step) const;
  StepResult finishStep(int64_t step, double seconds);

  const plan::Plan plan_;
  const DeviceOptions deviceOptions_;
  const EngineOptions options_;
  std::optional<plugin::PluginDevice> device_;
  int64_t freeAtFirst_ = 0; // bytes of the device
  std::unique_ptr<DeviceKernels> kernels_;
  std::optional<ProductChoices> choices_;            // where products are measured
  std::unique_ptr<InDeviceWorld> world_;             // of ranks that share the device
  std::unique_ptr<DeviceCommunicator> communicator_; // of a process with one rank
  std::vector<DeviceCommunicator *> communicators_;  // of the ranks of this process
  std::optional<ProcessReports> reports_;            // where ranks are processes
  std::vector<std::unique_ptr<DeviceRank>> ranks_;   // of this process
  std::vector<std::byte *> arenas_;                  // by rank of the plan
  std::vector<StepValues> values_ =
      std::vector<StepValues>(plan_.mesh.worldSize()); // of the last step, by rank
  Recording recording_;
  NextBatch nextBatch_;
  int64_t stagedStep_ = -1; // whose inputs are written
  int threadsPerRank_ = 1;
  RankThreads threads_; // last: they end before what they use
};

std::vector<int64_t> DeviceEngine::localRanks() const {
  if (isProcessRank())
    return {options_.communicator->rank()};
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < plan_.mesh.worldSize(); ++rank)
    ranks.push_back(rank);
  return ranks;
}

// To give back what a stuck device uses would wait for it: it is left to the end of the process.
DeviceEngine::~DeviceEngine() {
  if (std::ranges::none_of(ranks_, &DeviceRank::isStuck)) {
    for (const std::unique_ptr<DeviceRank> &rank : ranks_)
      rank->endStreams();
    return;
  }
  static auto *left = new std::vector<std::shared_ptr<void>>();
  left->push_back(std::make_shared<decltype(device_)>(std::move(device_)));
  left->push_back(std::make_shared<decltype(kernels_)>(std::move(kernels_)));
  left->push_back(std::make_shared<decltype(ranks_)>(std::move(ranks_)));
}

Status DeviceEngine::openDevice() {
  MGC_ASSIGN(plugin, plugin::Plugin::open(std::string(nameOf(plan_.target)), deviceOptions_.plugin));
  MGC_ASSIGN(device, plugin.openDevice(deviceOptions_.ordinal, deviceOptions_.deterministic));
  device_ = std::move(device);
  MGC_ASSIGN(facts, device_->describe());
  freeAtFirst_ = facts.free_bytes;
  return Status::ok();
}

std::optional<DeviceMemory> DeviceEngine::deviceMemory() const {
  const Result<mgc_device_facts> facts = device_->describe();
  if (!facts.isOk())
    return std::nullopt;
  int64_t ofPlan = 0;
  for (int64_t rank : localRanks())
    ofPlan += bytesOf(rank);
  return DeviceMemory{ofPlan, facts->total_bytes - freeAtFirst_, freeAtFirst_ - facts->free_bytes - ofPlan};
}

std::string DeviceEngine::whereRanksAre() const {
  const Result<mgc_device_facts> facts = device_->describe();
  return fmt::format("{} device {}, {}; {}{}", ranks_.size() > 1 ? "sharing" : "on", deviceOptions_.ordinal,
                     facts.isOk() ? facts->name : "?", facts.isOk() ? facts->versions : "?",
                     describeCollectives());
}

std::string DeviceEngine::describeCollectives() const {
  CollectiveCount sum;
  for (const std::unique_ptr<DeviceRank> &rank : ranks_) {
    sum.all += rank->collectives().all;
    sum.besideProducts += rank->collectives().besideProducts;
  }
  return sum.all == 0
             ? ""
             : fmt::format("; {} of {} collectives of a step beside products", sum.besideProducts, sum.all);
}

std::string inGib(int64_t bytes) {
  return fmt::format("{} bytes ({:.2f} GiB)", bytes, double(bytes) / 1073741824.0);
}

Status DeviceEngine::checkMemory() const {
  MGC_ASSIGN(facts, device_->describe());
  const std::vector<int64_t> local = localRanks();
  int64_t needed = 0, most = 0;
  for (int64_t rank : local) {
    needed += bytesOf(rank);
    most = std::max(most, bytesOf(rank));
  }
  if (needed <= facts.free_bytes)
    return Status::ok();
  const std::string advice =
      local.size() > 1 && most <= facts.free_bytes
          ? fmt::format("a device for each of the {} ranks would fit, which need {} at most", local.size(),
                        inGib(most))
          : fmt::format("a layout whose ranks need {:.1f} times less would fit: more ranks along tp, pp or, "
                        "with --zero 1, "
                        "dp; or smaller microbatches",
                        double(most) / double(std::max<int64_t>(facts.free_bytes, 1)));
  return errorf(
      "device {} ({}) has too little memory: {} of the plan's ranks need {}, {} are free of {}; nothing was "
      "allocated; {}",
      deviceOptions_.ordinal, facts.name, local.size(), inGib(needed), inGib(facts.free_bytes),
      inGib(facts.total_bytes), advice);
}

Status DeviceEngine::openProcesses() {
  Communicator &hosts = *options_.communicator;
  std::vector<int64_t> all(plan_.mesh.worldSize());
  std::iota(all.begin(), all.end(), 0);
  MGC_ASSIGN(everyone, hosts.openGroup(all));
  reports_.emplace(hosts, everyone);
  communicator_ =
      makeNcclRank(*device_, {hosts.rank(), hosts.worldSize(), options_.timeout, deviceOptions_.share,
                              [this] { return reports_->barrier(); }, [&hosts] { return hosts.cause(); }});
  communicators_ = {communicator_.get()};
  return Status::ok();
}

Status DeviceEngine::openCommunicators() {
  if (isProcessRank())
    return openProcesses();
  world_ = std::make_unique<InDeviceWorld>(*device_, plan_.mesh.worldSize(), options_.timeout);
  for (int64_t rank : localRanks())
    communicators_.push_back(&world_->communicator(rank));
  return Status::ok();
}

Status DeviceEngine::createRanks() {
  DeviceRankOptions rankOptions{deviceOptions_.poison, deviceOptions_.graphs && communicators_.size() == 1,
                                options_.timeout,      options_.seed,
                                options_.inject,       options_.timeline};
  for (DeviceCommunicator *communicator : communicators_) {
    Result<std::unique_ptr<DeviceRank>> rank =
        DeviceRank::create(plan_, *device_, *communicator, rankOptions);
    if (!rank.isOk())
      return Status(rank.status()).at(fmt::format("rank {}", communicator->rank()));
    ranks_.push_back(rank.take());
    rankOptions.callsBeforeUpdate = false; // the first one does
  }
  return Status::ok();
}

// One rank after another: replicas must compute alike, so what one has chosen all take.
Status DeviceEngine::chooseProducts() {
  if (!deviceOptions_.tuneProducts)
    return Status::ok();
  MGC_ASSIGN(choices, ProductChoices::open(*device_, deviceOptions_.tuneCache));
  choices_ = std::move(choices);
  if (!isProcessRank()) {
    for (const std::unique_ptr<DeviceRank> &rank : ranks_)
      MGC_TRY(rank->choose(*choices_).at(fmt::format("rank {}", rank->index())));
    return Status::ok();
  }
  for (int64_t rank = 0; rank < plan_.mesh.worldSize(); ++rank) {
    const auto choose = [&]() -> Result<std::string> {
      MGC_TRY(ranks_[0]->choose(*choices_));
      return choices_->text();
    };
    MGC_ASSIGN(chosen, deviceOptions_.share(fmt::format("products of rank {}", rank),
                                            rank == ranks_[0]->index(), choose));
    MGC_TRY(choices_->adopt(chosen));
  }
  return Status::ok();
}

Status DeviceEngine::load(const std::string &bundle) {
  MGC_TRY(openDevice());
  MGC_ASSIGN(kernels, DeviceKernels::load(plan_, bundle, *device_));
  kernels_ = std::move(kernels);
  MGC_TRY(verifyKernels(plan_, *kernels_));
  MGC_TRY(checkMemory());
  MGC_TRY(openCommunicators());
  MGC_TRY(createRanks());
  MGC_TRY(chooseProducts());
  arenas_.resize(plan_.mesh.worldSize());
  for (const std::unique_ptr<DeviceRank> &rank : ranks_) {
    MGC_TRY(rank->load(*kernels_, choices_ ? &*choices_ : nullptr).at(fmt::format("rank {}", rank->index())));
    arenas_[rank->index()] = rank->mirror();
    if (const Recording::Rank recording = rank->recording(); recording.timeline)
      recording_.ranks.push_back(recording);
  }
  threadsPerRank_ = threadsOfRank(availableCores().size(), static_cast<int64_t>(ranks_.size()));
  recording_.stepSeconds.reserve(options_.timeline.measure ? kMeasuredSteps : 0);
  return threads_.start(static_cast<int64_t>(ranks_.size()), [](int64_t) {});
}

Status DeviceEngine::forEachRank(const std::function<Status(DeviceRank &)> &work) {
  std::vector<Status> results(ranks_.size());
  threads_.run([&](int64_t i) { results[i] = work(*ranks_[i]); });
  for (size_t i = 0; i < results.size(); ++i)
    MGC_TRY(std::move(results[i]).at(fmt::format("rank {}", ranks_[i]->index())));
  return Status::ok();
}

Status DeviceEngine::upload(Part part) {
  return forEachRank([&](DeviceRank &rank) { return rank.upload(part); });
}

Status DeviceEngine::download(Part part) {
  return forEachRank([&](DeviceRank &rank) { return rank.download(part); });
}

Status DeviceEngine::stageInputs(int64_t step, const GlobalBatch &batch) {
  if (stagedStep_ == step)
    return Status::ok();
  MGC_TRY(checkBatch(plan_, batch));
  for (const std::unique_ptr<DeviceRank> &rank : ranks_)
    rank->writeInputs(batch, step);
  stagedStep_ = step;
  return Status::ok();
}

// A batch that is bad is found again by the step that it is for.
void DeviceEngine::stageNext(int64_t step) {
  if (const GlobalBatch *batch = nextBatch_ ? nextBatch_(step) : nullptr)
    (void)stageInputs(step, *batch);
}

void DeviceEngine::runStep(DeviceRank &rank, int64_t step, const StepScalars &scalars,
                           const std::function<Status()> *beforeUpdate) {
  if (const Status status = rank.run(step, scalars, beforeUpdate); !status.isOk()) {
    abort(status);
    rank.awaitEnd();
  }
}

// The first cause is kept. The abort of one rank is that of all ranks on its device. The hosts are told before the
// devices' communicators end, which the others' would see.
void DeviceEngine::abort(const Status &cause) {
  if (isProcessRank())
    options_.communicator->abort(cause);
  for (const std::unique_ptr<DeviceRank> &rank : ranks_)
    rank->dropGraph();
  communicators_[0]->abort(cause);
}

Result<int32_t> DeviceEngine::greatest(int32_t own) {
  Result<int32_t> most = own;
  if (isProcessRank())
    threads_.run([&](int64_t) { most = reports_->greatest(own); });
  return most;
}

Status DeviceEngine::collectValues(const GlobalBatch &batch) {
  Status status;
  if (isProcessRank())
    threads_.run([&](int64_t) { status = reports_->collect(ranks_[0]->values(), batch, values_); });
  else
    std::ranges::transform(ranks_, values_.begin(),
                           [](const std::unique_ptr<DeviceRank> &rank) { return rank->values(); });
  return status;
}

// Ranks that share a device have the device's error; the fault may be that of any rank that was at work.
Status DeviceEngine::failureOf(int64_t step) const {
  const Status cause = communicators_[0]->cause();
  const Status fault = device_->check();
  if (cause.isOk() || fault.isOk() || ranks_.size() == 1)
    return cause;
  std::vector<std::string> places;
  for (const std::unique_ptr<DeviceRank> &rank : ranks_)
    if (const ExecutionPlace place = rank->place(step); !place.instruction.empty())
      places.push_back(toString(place));
  return errorf("{}: {}", fmt::join(places, ", or "), fault.message());
}

StepResult DeviceEngine::finishStep(int64_t step, double seconds) {
  if (options_.timeline.measure && step >= options_.timeline.measureFirst)
    recording_.add(seconds);
  StepResult result = results();
  for (const std::unique_ptr<DeviceRank> &rank : ranks_)
    result.hostSeconds = std::max(result.hostSeconds, rank->hostSeconds());
  return result;
}

Result<StepResult> DeviceEngine::step(int64_t step, const GlobalBatch &batch, const StepScalars &scalars,
                                      const std::function<Status()> &beforeUpdate) {
  MGC_TRY(failureOf(step));
  MGC_TRY(stageInputs(step, batch));
  const auto start = std::chrono::steady_clock::now();
  const std::function<void(int64_t)> work = [&](int64_t i) {
    runStep(*ranks_[i], step, scalars, beforeUpdate ? &beforeUpdate : nullptr);
  };
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

Result<std::unique_ptr<Engine>> makeDeviceEngine(plan::Plan plan, const std::string &bundle,
                                                 const DeviceOptions &device, EngineOptions options) {
  auto engine = std::make_unique<DeviceEngine>(std::move(plan), device, std::move(options));
  MGC_TRY(engine->load(bundle));
  return std::unique_ptr<Engine>(std::move(engine));
}

} // namespace mgc
