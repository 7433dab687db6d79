// See Training.h.
#include "runtime/train/Training.h"

#include "plan/Expand.h"
#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/Cores.h"
#include "runtime/base/File.h"
#include "runtime/checkpoint/LoadState.h"
#include "runtime/checkpoint/SaveTarget.h"
#include "runtime/checkpoint/VerifyWeights.h"
#include "runtime/checkpoint/WeightDigests.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/hosts/StoreHosts.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/exec/VerifyMemory.h"
#include "runtime/io/ChoiceCache.h"
#include "runtime/measure/Trace.h"
#include "runtime/random/Philox.h"
#include "runtime/train/CheckpointSaver.h"
#include "runtime/train/StepLogs.h"
#include "runtime/train/TrainingOfRank.h"
#include "runtime/train/TrainingStart.h"
#include "runtime/train/VerifyTraining.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace mgc {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sleeps before about one instruction in 16, up to half a millisecond; when, depends on the place and the
// seed alone.
std::function<Status(const ExecutionPlace &)> randomDelays(uint64_t seed) {
  return [seed](const ExecutionPlace &place) {
    uint64_t key = seed;
    const uint64_t parts[] = {uint64_t(place.rank), uint64_t(place.step), uint64_t(place.microbatch),
                              std::hash<std::string_view>()(place.chunk),
                              std::hash<std::string_view>()(place.instruction)};
    for (uint64_t part : parts)
      key = (key ^ part) * 0x9E3779B97F4A7C15u, key ^= key >> 29;
    if (key % 16 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(key / 16 % 500));
    return Status::ok();
  };
}

// Whether the checkpoint is one of the folder's.
bool isFolderOf(const std::string &checkpoint, const std::string &folder) {
  std::error_code ignored;
  return std::filesystem::equivalent(
      std::filesystem::absolute(checkpoint, ignored).lexically_normal().parent_path(), folder, ignored);
}

class Training {
public:
  Training(const TrainingOptions &options, TrainingObserver &observer, Interrupt &interrupt)
      : options_(optionsOfRank(options)), observer_(observer), interrupt_(interrupt) {}
  ~Training() { interrupt_.watch(nullptr); }
  Result<TrainingSummary> run();
  // The last word to the other processes, and what they have to say.
  Status end(const Status &status) { return processes_ ? processes_->end(status) : status; }

private:
  Status load();
  Status runSteps();
  Status save(bool isLast);
  Status saveWeightsAlone();
  Status saveState(bool isLast);
  void finishSave();
  void noteSave(const Status &saved);
  Status saveAfter(const Status &failure);
  Status trace() const;
  Status profile();
  TrainingSummary summary(const Status &outputs) {
    summary_.outputs = outputs;
    return summary_;
  }

  Result<plan::Plan> loadPlan();
  Status verifyModelOfStart(const plan::Plan &plan) const;
  int64_t stepsDone() const { return start_.step() + summary_.steps; }
  int64_t stepsOfRun() const { return options_.trainIters - start_.step(); }
  bool isWriter() const { return options_.launch.rank == 0; }
  Status prepareSaves(const plan::Plan &plan);
  Status openSaveFolder(std::vector<std::string> &notes);
  int64_t checkpointsAtOnce() const;
  Status joinProcesses(const plan::Plan &plan);
  std::vector<RankHere> ranksHere(const plan::Plan &plan) const;
  int64_t threadsHere(const plan::Plan &plan) const;
  Status verifyThreads();
  // A process's vote before each step; the greatest vote counts for all.
  enum Vote { goOn, ended, interrupted, failed };
  Result<Vote> vote(const Status &failure);

  Status loadEngine(plan::Plan plan);
  DeviceOptions deviceOptions() const;
  Status loadData(const plan::Plan &plan);
  std::string describeData() const;
  void noteFrozen();
  Status loadParameters();
  Status loadWeightsOfStart(const FillOptions &fill);
  Status loadCheckpoint(const FillOptions &fill);
  Status verifyCheckpointFiles(const StateReader &checkpoint) const;
  Status verifyCopies(const std::string &what);
  Status makeBatches(const plan::Plan &plan);
  Result<const GlobalBatch *> batchOf(int64_t step); // read when it is first asked for; two steps are kept
  Status readBatch(int64_t step, GlobalBatch &batch);
  Status runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start);
  std::string whyNotFinite(int64_t step) const;
  Status writeGradients() const;
  Status readLoads(std::vector<ExpertLoad> &loads) const;
  void account(const TrainingStep &step);
  Status saveBetween();
  bool isSavedBetween() const;
  bool isSaveDue() const;
  bool isExitDue() const;

  const Clock::time_point began_ = Clock::now();
  const TrainingOptions options_;
  TrainingObserver &observer_;
  Interrupt &interrupt_;
  std::unique_ptr<Processes> processes_;     // null: this one is alone
  std::unique_ptr<MpiWorld> world_;          // of CPU ranks
  std::unique_ptr<Communicator> storeHosts_; // of ranks on devices
  TrainingStart start_;
  std::unique_ptr<DataSource> data_;
  struct Batch {
    int64_t step = -1;
    GlobalBatch batch;
    Status status;
  };
  std::vector<Batch> batches_; // two, used in turn
  std::unique_ptr<Engine> engine_;
  StepLogs logs_;
  Descriptor saveLock_;                        // of the folder of --save
  std::optional<CheckpointFolder> saveFolder_; // rank 0's, until the saver has it
  std::unique_ptr<CheckpointSaver> saver_;     // after the engine: ends before it
  MachineRates rates_;                         // if profiled
  TrainingSummary summary_;
  Status failure_;             // beside the training: of the data
  bool otherFailed_ = false;   // the same in another process
  bool isBetweenSteps_ = true; // the ranks hold the weights after summary_.steps whole steps, all finite
};

Result<plan::Plan> Training::loadPlan() {
  MGC_ASSIGN(start, findStart(options_));
  start_ = std::move(start);
  MGC_TRY(verifyIterations(options_, start_.step()));
  MGC_TRY(checkOptimizer(options_.optimizer, options_.trainIters));
  MGC_ASSIGN(plan, plan::readPlan(options_.plan));
  MGC_TRY(plan::provePlan(plan).at(options_.plan + "/" + plan::kPlanFile));
  plan.parameters = plan::expandedParameters(plan);
  MGC_TRY(verifyDeviceFlags(options_, plan));
  MGC_TRY(verifyModelFlags(options_, plan));
  MGC_TRY(verifyModelOfStart(plan));
  const Launch &launch = options_.launch;
  if (!launch.isAlone() && launch.size != plan.mesh.worldSize())
    return errorf(
        "{}: the plan has {} ranks, found {} processes ({}); expected as many, or one, which runs all ranks",
        options_.plan, plan.mesh.worldSize(), launch.size, launch.by);
  if (!launch.isAlone() && plan.target == plan::Target::cpu && !options_.mpi)
    return errorf("{}: the plan is for CPUs, and MPI carries the data of its {} processes ({}): {}; expected "
                  "mpirun -n {} "
                  "mgrun of Open MPI or MPICH, or one process, which runs all ranks",
                  options_.plan, launch.size, launch.by, options_.whyNoMpi, launch.size);
  return plan;
}

Status Training::verifyModelOfStart(const plan::Plan &plan) const {
  if (!start_.path() || !options_.verifyModel || options_.ignoreConfig)
    return Status::ok();
  const Status same = options_.verifyModel(plan.modelConfig, *start_.path());
  return same.isOk() ? same : errorf("--load: {}\n--ignore-config loads it all the same", same.message());
}

Status Training::load() {
  Result<plan::Plan> loaded = loadPlan();
  if (!loaded.isOk() && !options_.launch.isAlone())
    Processes::excuse(options_.launch, loaded.status());
  MGC_TRY(Status(loaded.status()));
  plan::Plan plan = loaded.take();
  const std::vector<MemoryLimit> limits = memoryLimits(); // before another process can have allocated
  if (!options_.launch.isAlone())
    MGC_TRY(joinProcesses(plan));
  if (plan.target == plan::Target::cpu)
    MGC_TRY(verifyMemory(plan, ranksHere(plan), threadsHere(plan), limits));
  MGC_TRY(verifyOutputs(options_, plan));
  if (options_.save && isWriter())
    MGC_TRY(prepareSaves(plan));
  MGC_TRY(loadEngine(std::move(plan)));
  if (processes_ && engine_->plan().target == plan::Target::cpu)
    MGC_TRY(verifyThreads());
  MGC_TRY(loadData(engine_->plan()));
  MGC_TRY(verifyContinues(start_, options_, engine_->plan(), *data_));
  MGC_TRY(loadParameters());
  if (options_.save && options_.savesState)
    saver_ =
        std::make_unique<CheckpointSaver>(*engine_, processes_.get(), *options_.save, std::move(saveFolder_));
  MGC_TRY(logs_.open(options_));
  if (options_.isProfiled()) {
    MGC_TRY(engine_->greatest(goOn).status()); // all processes measure at once
    MGC_ASSIGN(rates, engine_->measureRates());
    rates_ = rates;
  }
  if (const std::string note = start_.note(options_); !note.empty())
    observer_.noted(note);
  observer_.began(options_, *engine_, describeData());
  return Status::ok();
}

Status Training::prepareSaves(const plan::Plan &plan) {
  SaveTarget target = {*options_.save, options_.saveType, isSavedBetween(), options_.force,
                       options_.verifyModel};
  if (options_.savesState)
    target.checkpoints = checkpointsAtOnce();
  MGC_ASSIGN(lock, lockFolder(*options_.save));
  saveLock_ = std::move(lock);
  Result<std::vector<std::string>> notes = prepareSave(plan, target);
  MGC_TRY(Status(notes.status()).at("--save"));
  if (options_.savesState)
    MGC_TRY(openSaveFolder(*notes));
  for (const std::string &note : *notes)
    observer_.noted(note);
  return Status::ok();
}

Status Training::openSaveFolder(std::vector<std::string> &notes) {
  const bool isContinued = start_.continues && isFolderOf(*start_.checkpoint, *options_.save);
  const Continued continued = {isContinued ? std::optional(start_.step()) : std::nullopt, options_.force};
  Result<CheckpointFolder> folder =
      CheckpointFolder::open(*options_.save, options_.saveRetain, continued, notes);
  MGC_TRY(Status(folder.status()).at("--save"));
  saveFolder_ = folder.take();
  return Status::ok();
}

// The most checkpoints that the run's saves add: the newest is whole before the oldest goes.
int64_t Training::checkpointsAtOnce() const {
  const int64_t saves =
      isSavedBetween() ? (stepsOfRun() + options_.saveInterval - 1) / options_.saveInterval : 1;
  const auto there = std::min<int64_t>(std::ssize(checkpointsIn(*options_.save)), options_.saveRetain);
  return options_.saveRetain == 0 ? saves : std::min(saves, options_.saveRetain + 1 - there);
}

Status Training::joinProcesses(const plan::Plan &plan) {
  MGC_ASSIGN(text, plan::printPlan(plan));
  MGC_ASSIGN(processes,
             Processes::join(options_.launch, identityOf(options_, plan, hashName(text), start_.describe()),
                             options_.timeout));
  processes_ = std::move(processes);
  if (plan.target == plan::Target::cpu) {
    MGC_ASSIGN(world, MpiWorld::open(*options_.mpi, *processes_, options_.timeout));
    world_ = std::move(world);
    return Status::ok();
  }
  storeHosts_ = makeStoreHosts(*processes_, options_.timeout);
  return Status::ok();
}

std::vector<RankHere> Training::ranksHere(const plan::Plan &plan) const {
  std::vector<RankHere> ranks;
  if (processes_)
    for (const auto &[rank, memoryGroup] : processes_->neighbours())
      ranks.push_back({rank, rank == processes_->rank(), memoryGroup});
  else
    for (const std::string group = memoryGroup(); std::ssize(ranks) < plan.mesh.worldSize();)
      ranks.push_back({std::ssize(ranks), true, group});
  return ranks;
}

// The threads of this process, without a few that only wait.
int64_t Training::threadsHere(const plan::Plan &plan) const {
  const auto cores = static_cast<int64_t>(availableCores().size());
  const int64_t ranks = processes_ ? 1 : plan.mesh.worldSize();
  const int64_t beside = ranks > 1 ? 2 * ranks : 0; // at most: StreamExecutor.h
  return beside + (options_.threads > 0 ? options_.threads * ranks : std::max(cores, ranks));
}

// Ranks that compute the same must split it in the same way.
Status Training::verifyThreads() {
  const auto own = [&]() -> Result<std::string> { return std::to_string(engine_->threadsPerRank()); };
  MGC_ASSIGN(first, processes_->store().share("threads", isWriter(), own, processes_->deadline()));
  if (first == std::to_string(engine_->threadsPerRank()))
    return Status::ok();
  return errorf(
      "rank {} has {} threads for the cores it may use, rank 0 {}; expected as many for all: --threads {}",
      processes_->rank(), engine_->threadsPerRank(), first, first);
}

Status Training::loadEngine(plan::Plan plan) {
  EngineOptions engine;
  engine.threadsPerRank = options_.threads;
  engine.timeout = options_.timeout;
  engine.seed = options_.seed;
  if (processes_) {
    engine.communicator = world_ ? &world_->communicator() : storeHosts_.get();
    engine.cores = {processes_->coreRank(), processes_->coreSize()};
  }
  engine.bf16 = {options_.bf16Product, defaultCacheFile("bf16-products.json")};
  // The first step is a warm-up: nothing is in the caches, and most of the memory is touched for the first time.
  const int64_t first = start_.step() + std::min<int64_t>(1, stepsOfRun() - 1);
  const int64_t traced = std::min(options_.traceSteps, options_.trainIters - first);
  engine.timeline = {first, options_.isTraced() ? traced : 0, first, options_.isProfiled()};
  if (options_.delays)
    engine.inject = randomDelays(*options_.delays);
  engine.poison = options_.poison;
  if (plan.target != plan::Target::cpu)
    engine.device = deviceOptions();
  MGC_ASSIGN(made, Engine::create(std::move(plan), options_.plan, engine));
  engine_ = std::move(made);
  interrupt_.watch(engine_.get());
  return Status::ok();
}

DeviceOptions Training::deviceOptions() const {
  DeviceOptions device;
  device.plugin = options_.devicePlugin.value_or("");
  device.ordinal = options_.device.value_or(processes_ ? static_cast<int>(processes_->localRank()) : 0);
  device.deterministic = !options_.nonDeterministic;
  device.graphs = !options_.noGraphs;
  device.tuneProducts = options_.tuneProducts;
  if (options_.tuneProducts)
    device.tuneCache = options_.tuneCache.value_or(defaultCacheFile("device-products.json"));
  if (processes_)
    device.share = [this](const auto &key, bool isMaker, const auto &make) {
      return processes_->store().share(key, isMaker, make, processes_->deadline());
    };
  return device;
}

Status Training::loadData(const plan::Plan &plan) {
  const std::string tokenizer = start_.weights ? tokenizerIn(*start_.weights) : "";
  const SplitRequest request{Split::train, options_.trainIters * plan.globalBatchSize};
  const DataOptions options = {options_.binType,   options_.textBytes,    tokenizer,
                               options_.documents, options_.masking,      options_.tokenizer,
                               options_.sft,       options_.chatTemplate, *request.samples};
  MGC_ASSIGN(data, options_.data     ? openData(*options_.data, plan, options_.seed, options)
                   : options_.corpus ? openCorpus(*options_.corpus, request, plan, options_.seed, options)
                                     : makeMockData(plan, options_.seed, options));
  if (!data)
    return errorf(
        "--data-path: there is nothing to train on: the split train has no sequences; expected a larger "
        "first part of --split, or --train-data-path");
  data_ = std::move(data);
  return Status::ok();
}

// "corpus.txt: 1234 samples of 128 tokens; 100 steps of 16 are 1.30 epochs".
std::string Training::describeData() const {
  const std::optional<double> epochs = data_->epochsOf(options_.trainIters);
  return data_->describe() + (epochs ? fmt::format("; {} steps of {} are {:.2f} epochs", options_.trainIters,
                                                   engine_->plan().globalBatchSize, *epochs)
                                     : "");
}

// Nobody wants to keep values that were drawn.
void Training::noteFrozen() {
  const plan::Plan &plan = engine_->plan();
  const auto frozen = std::ranges::count_if(
      plan.parameters, [&](const plan::Parameter &parameter) { return isFrozen(plan, parameter); });
  if (frozen > 0)
    observer_.noted(
        fmt::format("without --load the {} frozen parameters of the plan keep what --seed {} draws", frozen,
                    options_.seed));
}

Status Training::loadParameters() {
  const FillOptions fill{[this](const auto &work) { engine_->onRanks(work); }, engine_->threadsPerRank(),
                         engine_->arenasAreZero()};
  if (start_.checkpoint)
    return loadCheckpoint(fill);
  if (start_.weights)
    return loadWeightsOfStart(fill);
  noteFrozen();
  MGC_TRY(initWeights(engine_->plan(), options_.seed, engine_->arenas(), fill));
  return engine_->upload(Part::weights);
}

Status Training::loadWeightsOfStart(const FillOptions &fill) {
  MGC_ASSIGN(checkpoint, Checkpoint::open(*start_.weights));
  MGC_TRY(loadWeights(engine_->plan(), checkpoint, engine_->arenas(), {options_.ignoreExtraWeights}, fill));
  if (const std::vector<std::string> ignored = ignoredTensors(engine_->plan(), checkpoint); !ignored.empty())
    observer_.noted(
        fmt::format("--load {}: the plan has no place for {} of its tensors, such as {}; weights that are "
                    "saved lack them",
                    *start_.weights, ignored.size(), ignored.front()));
  MGC_TRY(verifyCopies(*start_.weights));
  return engine_->upload(Part::weights);
}

Status Training::loadCheckpoint(const FillOptions &fill) {
  const StatePart part = start_.continues ? StatePart::all : StatePart::weights;
  Result<StateReader> checkpoint = StateReader::open(*start_.checkpoint, start_.record);
  MGC_TRY(Status(checkpoint.status()).at("--load"));
  MGC_TRY(verifyStateFits(engine_->plan(), *checkpoint, part).at("--load"));
  MGC_TRY(verifyCheckpointFiles(*checkpoint).at("--load"));
  MGC_TRY(loadState(engine_->plan(), *checkpoint, engine_->arenas(), part, fill));
  MGC_TRY(verifyCopies(*start_.checkpoint));
  return engine_->upload(start_.continues ? Part::state : Part::weights);
}

// Each file is read by one process.
Status Training::verifyCheckpointFiles(const StateReader &checkpoint) const {
  std::vector<Status> results(checkpoint.fileCount());
  const int64_t parts = options_.launch.size, own = options_.launch.rank;
  forEachInParallel(std::ssize(results), [&](int64_t file) {
    if (file % parts == own)
      results[file] = checkpoint.verifyFile(size_t(file));
  });
  for (Status &result : results)
    MGC_TRY(std::move(result));
  return Status::ok();
}

Status Training::verifyCopies(const std::string &what) {
  if (!processes_)
    return Status::ok();
  RankMemory memory(engine_->arenas(), engine_->hosts());
  return verifyDigests(engine_->plan(), memory, engine_->arenas(),
                       "expected finite weights, and the same checkpoint for all processes")
      .at("--load " + what);
}

Status Training::makeBatches(const plan::Plan &plan) {
  for (int i = 0; i < 2; ++i) {
    MGC_ASSIGN(batch, GlobalBatch::create(plan));
    batches_.push_back({-1, std::move(batch), {}});
  }
  engine_->readAhead([this](int64_t step) -> const GlobalBatch * {
    if (step >= options_.trainIters || interrupt_.isRequested())
      return nullptr;
    const Result<const GlobalBatch *> batch =
        batchOf(step); // what is wrong with it is said when its turn has come
    return batch.isOk() ? *batch : nullptr;
  });
  return Status::ok();
}

// A batch without a label that counts has no loss, and the step would do nothing but weight decay.
Status Training::readBatch(int64_t step, GlobalBatch &batch) {
  MGC_TRY(data_->batch(step, batch));
  if (std::ranges::any_of(batch.labels, [](int32_t label) { return label != kIgnoredLabel; }))
    return Status::ok();
  const bool isMasked = engine_->plan().objective == plan::Objective::masked;
  return errorf(
      "all {} labels of the batch are {}, so it has no loss; expected a token that counts{}",
      batch.labels.size(), kIgnoredLabel,
      isMasked ? ": more tokens in a step, or a higher --mlm-probability where tokens are masked here" : "");
}

Result<const GlobalBatch *> Training::batchOf(int64_t step) {
  Batch &kept = batches_[step % 2];
  if (kept.step != step) {
    kept.step = step;
    kept.status = readBatch(step, kept.batch).at(fmt::format("step {}", step));
  }
  if (!kept.status.isOk())
    return kept.status;
  return &std::as_const(kept.batch);
}

// A failure beside the training ends it between two steps, in all processes at the same one.
Result<Training::Vote> Training::vote(const Status &failure) {
  const Vote own = !failure.isOk()            ? failed
                   : interrupt_.isRequested() ? interrupted
                   : isExitDue()              ? ended
                                              : goOn;
  const Result<int32_t> greatest = engine_->greatest(own);
  if (!greatest.isOk())
    return Status(greatest.status())
        .at(fmt::format("rank {}, before step {}", options_.launch.rank, stepsDone()));
  return static_cast<Vote>(*greatest);
}

Status Training::runSteps() {
  MGC_TRY(makeBatches(engine_->plan()));
  for (int64_t step = start_.step();; ++step) {
    const auto start = Clock::now();
    const bool isLast = step == options_.trainIters;
    const GlobalBatch *batch = nullptr;
    if (failure_.isOk() && !isLast && !interrupt_.isRequested()) {
      Result<const GlobalBatch *> read = batchOf(step);
      failure_ = read.status();
      batch = read.isOk() ? *read : nullptr;
    }
    MGC_ASSIGN(votes, vote(failure_));
    otherFailed_ = votes == failed && failure_.isOk();
    summary_.interrupted = votes == interrupted;
    summary_.endedEarly = votes == ended && !isLast;
    if (isLast || votes != goOn)
      return failure_;
    MGC_TRY(runStep(step, *batch, start));
    if (saver_ && saver_->hasEnded())
      finishSave();
    if (isSaveDue())
      MGC_TRY(saveBetween());
  }
}

// The last step's save is the one at the end.
bool Training::isSavedBetween() const {
  return options_.saveInterval > 0 && options_.saveInterval < options_.trainIters;
}

bool Training::isSaveDue() const {
  return isSavedBetween() && stepsDone() % options_.saveInterval == 0 && stepsDone() < options_.trainIters;
}

// As Megatron-LM's --exit-interval and --exit-duration-in-mins; minutes count from when the run began, its loading too.
bool Training::isExitDue() const {
  const bool isInterval =
      options_.exitInterval > 0 && summary_.steps > 0 && stepsDone() % options_.exitInterval == 0;
  const bool isTime = options_.exitMinutes && secondsSince(began_) >= *options_.exitMinutes * 60;
  return isInterval || (isTime && summary_.steps > 0);
}

Status Training::runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start) {
  const double lr = learningRate(options_.optimizer, options_.trainIters, step);
  const bool writes = step == start_.step() && options_.saveGradients;
  std::vector<ExpertLoad> loads;
  std::function<Status()> beforeUpdate;
  if (writes || options_.logsLoads)
    beforeUpdate = [&]() -> Status {
      if (writes)
        MGC_TRY(writeGradients());
      return options_.logsLoads ? readLoads(loads) : Status::ok();
    };
  isBetweenSteps_ = false;
  MGC_ASSIGN(result, engine_->step(step, batch, stepScalars(options_.optimizer, lr, step), beforeUpdate));
  const TrainingStep done{step, result, lr, secondsSince(start), loads};
  account(done);
  isBetweenSteps_ = std::isfinite(result.loss) && std::isfinite(result.gradientNorm);
  for (const std::string &note : logs_.write(done, engine_->plan()))
    observer_.noted(note);
  observer_.stepped(done);
  if (isBetweenSteps_)
    return Status::ok();
  return errorf("step {}: loss {}, gradient norm {}: not finite; {}", step, result.loss, result.gradientNorm,
                whyNotFinite(step));
}

// The weights that it began with are looked at only now.
std::string Training::whyNotFinite(int64_t step) const {
  if (start_.weights)
    if (const Result<Checkpoint> checkpoint = Checkpoint::open(*start_.weights); checkpoint.isOk())
      if (const Status finite = verifyFinite(engine_->plan(), *checkpoint); !finite.isOk())
        return "--load " + finite.message();
  if (step == start_.step())
    return "nothing is updated yet: the weights that it began with are too large for this model, or its data";
  return "a smaller --lr, more --lr-warmup-iters or a smaller --clip-grad may help";
}

// The gradients in the ranks are of the summed loss; those written are of the loss, the mean over the tokens.
Status Training::writeGradients() const {
  const auto scale = static_cast<float>(1.0 / std::max(1.0, engine_->results().tokens));
  return saveGradients(engine_->plan(), engine_->arenas(), scale, *options_.saveGradients, engine_->hosts());
}

Status Training::readLoads(std::vector<ExpertLoad> &loads) const {
  MGC_ASSIGN(read, expertLoads(engine_->plan(), engine_->arenas(), engine_->hosts()));
  loads = std::move(read);
  return Status::ok();
}

void Training::account(const TrainingStep &step) {
  if (summary_.steps == 0)
    summary_.firstLoss = step.result.loss;
  ++summary_.steps;
  summary_.lastLoss = step.result.loss;
  summary_.tokens += static_cast<double>(engine_->plan().globalBatchSize * engine_->plan().sequenceLength);
  summary_.seconds += step.seconds;
}

Status Training::save(bool isLast) {
  // Interrupted before the first step there is nothing to keep, and maybe an older checkpoint to lose.
  if (!options_.save || (summary_.interrupted && summary_.steps == 0))
    return Status::ok();
  // Rank 0 asks the others for weights, which would hold up their training.
  if (isLast || !options_.asyncSave)
    MGC_TRY(saveWeightsAlone());
  return saver_ ? saveState(isLast) : Status::ok();
}

Status Training::saveWeightsAlone() {
  MGC_TRY(engine_->download(Part::weights));
  SaveOptions save;
  save.type = options_.saveType;
  save.communicator = engine_->hosts();
  Status saved = saveWeights(engine_->plan(), engine_->arenas(), *options_.save, save);
  return processes_ ? std::move(saved).at(
                          fmt::format("rank {}, saving after {} steps", options_.launch.rank, stepsDone()))
                    : saved;
}

// A checkpoint that fails between steps is tried again at the next interval and at the end.
Status Training::saveState(bool isLast) {
  finishSave();
  const Status saved =
      saver_->save(recordOf(options_, engine_->plan(), *data_, stepsDone()), options_.asyncSave && !isLast);
  if (isLast)
    return saved;
  noteSave(saved);
  return Status::ok();
}

void Training::finishSave() { noteSave(saver_->finish()); }

void Training::noteSave(const Status &saved) {
  if (!saved.isOk())
    observer_.noted(fmt::format("no checkpoint was saved: {}; the training goes on", saved.message()));
}

// A save that cannot be written is tried again at the next interval and at the end. Weights that must not be saved end the
// training. Where ranks are processes, all must know at once: any failure of a save that they make together ends them.
Status Training::saveBetween() {
  const Status saved = save(false);
  if (saved.isOk() || processes_)
    return saved;
  if (Status wrong = verifySavableWeights(engine_->plan(), engine_->arenas()); !wrong.isOk()) {
    isBetweenSteps_ = false;
    return wrong;
  }
  observer_.noted(fmt::format("after {} steps: {}; the training goes on", stepsDone(), saved.message()));
  return Status::ok();
}

Status Training::trace() const {
  return options_.trace ? writeTrace(engine_->plan(), engine_->recording(), *options_.trace) : Status::ok();
}

// Interrupted before the second step there is none.
Status Training::profile() {
  if (!options_.isProfiled() || engine_->recording().steps == 0)
    return Status::ok();
  MGC_ASSIGN(after,
             engine_->measureRates()); // what else the machine does comes and goes: the better one counts
  rates_ = {std::max(rates_.flops, after.flops), std::max(rates_.bf16Flops, after.bf16Flops),
            std::max(rates_.bytes, after.bytes)};
  summary_.profile = profileOf(*engine_, rates_);
  return options_.profileJson ? writeFileAtomically(*options_.profileJson, toJson(*summary_.profile))
                              : Status::ok();
}

// One error of all there are.
static Status allOf(std::initializer_list<Status> statuses) {
  std::string text;
  for (const Status &status : statuses)
    if (!status.isOk())
      text += (text.empty() ? "" : "\n") + status.message();
  return text.empty() ? Status::ok() : Status::error(text);
}

Result<TrainingSummary> Training::run() {
  MGC_TRY(load());
  const Status ran = runSteps();
  summary_.deviceMemory = engine_->deviceMemory();
  const Status logged = logs_.finish();
  const Status traced = trace(); // of a run that failed too
  const Status saved = !ran.isOk() || otherFailed_ ? saveAfter(ran) : save(true);
  const Status profiled = saved.isOk() ? profile() : Status::ok();
  const Status shown = observer_.ended(summary_, *engine_); // of a run that failed too
  MGC_TRY(saved);
  summary_.isTraced = options_.trace && traced.isOk();
  summary_.isProfileWritten = options_.profileJson && summary_.profile && profiled.isOk();
  summary_.isPageWritten = options_.page && shown.isOk();
  summary_.outputs = allOf({logged, traced, profiled, shown});
  return summary_;
}

// Trained weights are not lost because something beside the training failed.
Status Training::saveAfter(const Status &failure) {
  const bool haveAllEnded = !processes_ || !failure_.isOk() || otherFailed_; // here, to save together
  if (!options_.save || !isBetweenSteps_ || summary_.steps == 0 || !haveAllEnded)
    return failure;
  if (Status saved = save(true); !saved.isOk())
    return failure.isOk() ? saved
                          : errorf("{}\nthe weights of the {} steps before are lost too: {}",
                                   failure.message(), stepsDone(), saved.message());
  if (failure.isOk())
    return failure;
  return errorf("{}\nthe weights after {} steps are in {}", failure.message(), stepsDone(), *options_.save);
}

} // namespace

bool Interrupt::abort() {
  std::lock_guard lock(mutex_);
  if (engine_)
    engine_->abort(Status::error("interrupted in the middle of a step; nothing is saved"));
  return engine_ != nullptr;
}

bool Interrupt::isTraining() {
  std::lock_guard lock(mutex_);
  return engine_ != nullptr;
}

void Interrupt::watch(Engine *engine) {
  std::lock_guard lock(mutex_);
  engine_ = engine;
}

Result<TrainingSummary> train(const TrainingOptions &options, TrainingObserver &observer,
                              Interrupt &interrupt) {
  Training training(options, observer, interrupt);
  Result<TrainingSummary> summary = training.run();
  MGC_TRY(training.end(summary.status()));
  return summary;
}

} // namespace mgc
