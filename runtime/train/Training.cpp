// See Training.h.
#include "runtime/train/Training.h"

#include "plan/Expand.h"
#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/File.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/hosts/StoreHosts.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/io/ChoiceCache.h"
#include "runtime/measure/Trace.h"
#include "runtime/random/Philox.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/RunMemory.h"
#include "runtime/train/RunSaves.h"
#include "runtime/train/StartParameters.h"
#include "runtime/train/StepData.h"
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

class Training {
public:
  Training(const TrainingOptions &options, TrainingObserver &observer, Interrupt &interrupt)
      : options_(optionsOfRank(options)), observer_(observer), interrupt_(interrupt),
        saves_(options_, start_, observer) {}
  ~Training() { interrupt_.watch(nullptr); }
  Result<TrainingSummary> run();
  // The last word to the other processes, and what they have to say.
  Status end(const Status &status) { return processes_ ? processes_->end(status) : status; }

private:
  Status load();
  Status runSteps();
  Status saveAtTheEnd();
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
  Status joinProcesses(const plan::Plan &plan);
  Status verifyThreads();
  // A process's vote before each step; the greatest vote counts for all.
  enum Vote { goOn, ended, interrupted, failed };
  Result<Vote> vote(const Status &failure);

  EngineOptions engineOptions(plan::Target target) const;
  Status loadEngine(plan::Plan plan);
  Status loadEvaluation();
  DeviceOptions deviceOptions() const;
  void readAhead();
  Result<bool> evaluate(Split split); // whether it came to its end, in all processes
  Status evaluateAtTheEnd();
  Status runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start);
  Status concludeBadStep(int64_t step, bool isUpdated);
  // Without an update, by this run and by those that it goes on from.
  int64_t skipped() const { return (start_.continues ? start_.record.skipped : 0) + summary_.skipped; }
  Status writeGradients() const;
  Status readLoads(std::vector<ExpertLoad> &loads) const;
  Status readNorms(std::vector<LayerNorm> &norms) const;
  double scaleOfMean() const { return 1.0 / std::max(1.0, engine_->results().tokens); }
  int64_t devices() const; // that compute a step
  void account(const TrainingStep &step);
  bool isExitDue() const;

  const Clock::time_point began_ = Clock::now();
  const TrainingOptions options_;
  TrainingObserver &observer_;
  Interrupt &interrupt_;
  std::unique_ptr<Processes> processes_;     // null: this one is alone
  std::unique_ptr<MpiWorld> world_;          // of CPU ranks
  std::unique_ptr<Communicator> storeHosts_; // of ranks on devices
  TrainingStart start_;
  std::optional<StepData> data_;
  std::unique_ptr<Engine> engine_;
  std::optional<plan::Plan> evaluationPlan_; // until its engine has it
  std::unique_ptr<Evaluation> evaluation_;
  StepChecks checks_{options_.checks};
  std::optional<StepWork> work_;       // if throughput is asked for
  std::optional<GradientNorms> norms_; // if those of layers are
  StepLogs logs_;
  RunSaves saves_;     // after the engine: ends before it
  MachineRates rates_; // if profiled
  TrainingSummary summary_;
  Status failure_;             // beside the training: of the data; too many bad steps
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
  if (options_.evalInterval > 0) {
    MGC_ASSIGN(evaluation, readEvaluationPlan(options_.plan, plan));
    evaluationPlan_ = std::move(evaluation);
  }
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
  return same.isOk() ? same
                     : errorf("{}: {}\n--ignore-config loads it all the same", start_.by, same.message());
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
    MGC_TRY(verifyRunMemory(options_, plan, evaluationPlan_ ? &*evaluationPlan_ : nullptr, processes_.get(),
                            limits));
  MGC_TRY(verifyOutputs(options_, plan));
  if (options_.save && isWriter())
    MGC_TRY(saves_.prepare(plan));
  MGC_TRY(loadEngine(std::move(plan)));
  if (processes_ && engine_->plan().target == plan::Target::cpu)
    MGC_TRY(verifyThreads());
  MGC_ASSIGN(data, StepData::open(options_, start_, engine_->plan(),
                                  {Split::train, options_.trainIters, &interrupt_.requested()}));
  if (!data)
    return errorf("--data-path: there is nothing to train on: the split train has no sequences; expected a "
                  "larger first part of --split, or --train-data-path");
  data_ = std::move(data);
  MGC_TRY(loadEvaluation());
  MGC_TRY(verifyContinues(start_, options_, engine_->plan(), data_->source()));
  MGC_TRY(loadParameters(options_, start_, *engine_, processes_.get(), observer_));
  saves_.begin(*engine_, processes_.get(), data_->source());
  MGC_TRY(logs_.open(options_, start_.continued(options_)));
  if (options_.logsNormsByLayer)
    norms_.emplace(engine_->plan(), engine_->arenas());
  if (options_.findStepWork)
    work_ = options_.findStepWork(engine_->plan());
  if (options_.isProfiled()) {
    MGC_TRY(engine_->greatest(goOn).status()); // all processes measure at once
    MGC_ASSIGN(rates, engine_->measureRates());
    rates_ = rates;
  }
  if (const std::string note = start_.note(options_); !note.empty())
    observer_.noted(note);
  observer_.began(options_, *engine_, data_->describe());
  return Status::ok();
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

EngineOptions Training::engineOptions(plan::Target target) const {
  EngineOptions engine;
  engine.threadsPerRank = options_.threads;
  engine.timeout = options_.timeout;
  engine.seed = options_.seed;
  if (processes_) {
    engine.communicator = world_ ? &world_->communicator() : storeHosts_.get();
    engine.cores = {processes_->coreRank(), processes_->coreSize()};
  }
  engine.bf16 = {options_.bf16Product, defaultCacheFile("bf16-products.json")};
  if (options_.delays)
    engine.inject = randomDelays(*options_.delays);
  engine.poison = options_.poison;
  if (target != plan::Target::cpu)
    engine.device = deviceOptions();
  return engine;
}

Status Training::loadEngine(plan::Plan plan) {
  EngineOptions engine = engineOptions(plan.target);
  // The first step is a warm-up: nothing is in the caches, and most of the memory is touched for the first time.
  const int64_t first = start_.step() + std::min<int64_t>(1, stepsOfRun() - 1);
  const int64_t traced = std::min(options_.traceSteps, options_.trainIters - first);
  engine.timeline = {first, options_.isTraced() ? traced : 0, first, options_.isProfiled()};
  MGC_ASSIGN(made, Engine::create(std::move(plan), options_.plan, engine));
  engine_ = std::move(made);
  interrupt_.watch(engine_.get());
  return Status::ok();
}

Status Training::loadEvaluation() {
  if (!evaluationPlan_)
    return Status::ok();
  const plan::Target target = evaluationPlan_->target;
  MGC_ASSIGN(made, Evaluation::open(options_, start_, *engine_, *std::move(evaluationPlan_),
                                    engineOptions(target), interrupt_));
  evaluation_ = std::move(made);
  evaluationPlan_.reset();
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

void Training::readAhead() {
  engine_->readAhead([this](int64_t step) -> const GlobalBatch * {
    if (step >= options_.trainIters || interrupt_.isRequested())
      return nullptr;
    const Result<const GlobalBatch *> batch =
        data_->batchOf(step); // what is wrong with it is said when its turn has come
    return batch.isOk() ? *batch : nullptr;
  });
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
  readAhead();
  for (int64_t step = start_.step();; ++step) {
    const auto start = Clock::now();
    const bool isLast = step == options_.trainIters;
    if (isLast && evaluation_ && summary_.steps > 0)
      MGC_TRY(evaluateAtTheEnd());
    const GlobalBatch *batch = nullptr;
    if (failure_.isOk() && !isLast && !interrupt_.isRequested()) {
      Result<const GlobalBatch *> read = data_->batchOf(step);
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
    if (evaluation_ && evaluation_->isDue(stepsDone()))
      MGC_TRY(evaluate(Split::valid).status());
    saves_.poll();
    if (saves_.isDue(stepsDone())) {
      Status saved = saves_.saveBetween(stepsDone(), skipped());
      isBetweenSteps_ = saved.isOk();
      MGC_TRY(std::move(saved));
    }
  }
}

// What fails beside the engine ends the training before the next step, in all processes.
Result<bool> Training::evaluate(Split split) {
  interrupt_.watch(&evaluation_->engine());
  Result<Evaluation::Outcome> outcome = evaluation_->run(*engine_, split, stepsDone(), interrupt_);
  interrupt_.watch(engine_.get());
  MGC_TRY(Status(outcome.status()).at("evaluation"));
  if (failure_.isOk()) // else it ends the training already
    failure_ = outcome->failure;
  if (!outcome->isComplete)
    return false;
  for (const std::string &note : logs_.write(outcome->result))
    observer_.noted(note);
  observer_.evaluated(outcome->result);
  return true;
}

Status Training::evaluateAtTheEnd() {
  if (!evaluation_->isDue(stepsDone())) {
    MGC_ASSIGN(isComplete, evaluate(Split::valid));
    if (!isComplete)
      return Status::ok();
  }
  return evaluation_->has(Split::test) ? evaluate(Split::test).status() : Status::ok();
}

// As Megatron-LM's --exit-interval and --exit-duration-in-mins; minutes count from when the run began, its loading too.
bool Training::isExitDue() const {
  const bool isInterval =
      options_.exitInterval > 0 && summary_.steps > 0 && stepsDone() % options_.exitInterval == 0;
  const bool isTime = options_.exitMinutes && secondsSince(began_) >= *options_.exitMinutes * 60;
  return isInterval || (isTime && summary_.steps > 0);
}

Status Training::runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start) {
  const int64_t updates = step - skipped();
  const double lr = learningRate(options_.optimizer, options_.trainIters, updates);
  const bool writes = step == start_.step() && options_.saveGradients;
  std::vector<ExpertLoad> loads;
  std::function<Status()> beforeUpdate;
  std::vector<LayerNorm> norms;
  if (writes || options_.logsLoads || norms_)
    beforeUpdate = [&]() -> Status {
      if (writes)
        MGC_TRY(writeGradients());
      if (norms_)
        MGC_TRY(readNorms(norms));
      return options_.logsLoads ? readLoads(loads) : Status::ok();
    };
  Accepts accepts;
  if (checks_.skips())
    accepts = [&](const StepResult &complete) { return checks_.judge(complete); };
  isBetweenSteps_ = false;
  MGC_ASSIGN(result,
             engine_->step(step, batch, stepScalars(options_.optimizer, lr, updates), beforeUpdate, accepts));
  const bool isGood = accepts ? result.isUpdated : checks_.judge(result);
  TrainingStep done{step, result, lr, secondsSince(start), loads};
  done.norms = std::move(norms);
  if (work_)
    done.throughput = throughputOf(*work_, engine_->plan(), done.seconds, devices());
  account(done);
  isBetweenSteps_ = !result.isUpdated || (isGood && checks_.isFinite());
  for (const std::string &note : logs_.write(done, engine_->plan()))
    observer_.noted(note);
  observer_.stepped(done);
  return isGood ? Status::ok() : concludeBadStep(step, result.isUpdated);
}

// An error: its update happened, and nothing of it may be saved. What ends a run whose weights are good is one of failure_.
Status Training::concludeBadStep(int64_t step, bool isUpdated) {
  const std::string finding = fmt::format(
      "step {}: {}", step, checks_.finding().empty() ? "another process refused it" : checks_.finding());
  const std::string data = "the step's data: " + data_->describeBatch(step);
  const std::string why = checks_.isFinite() ? "" : "; " + whyNotFinite(start_, engine_->plan(), step);
  if (isUpdated)
    return errorf("{}{}; --skip-bad-steps N would leave its update out\n{}", finding, why, data);
  observer_.noted(fmt::format("{}; its update is skipped\n{}", finding, data));
  if (checks_.isOver())
    failure_ = errorf("{}{}; --skip-bad-steps {} skips as many in a row, and this is one more\n{}", finding,
                      why, options_.checks.skips, data);
  return Status::ok();
}

// The gradients in the ranks are of the summed loss; those written are of the loss, the mean over the tokens.
Status Training::writeGradients() const {
  const auto scale = static_cast<float>(scaleOfMean());
  return saveGradients(engine_->plan(), engine_->arenas(), scale, *options_.saveGradients, engine_->hosts());
}

Status Training::readNorms(std::vector<LayerNorm> &norms) const {
  MGC_ASSIGN(read, norms_->read(scaleOfMean(), engine_->hosts()));
  norms = std::move(read);
  return Status::ok();
}

Status Training::readLoads(std::vector<ExpertLoad> &loads) const {
  MGC_ASSIGN(read, expertLoads(engine_->plan(), engine_->arenas(), engine_->hosts()));
  loads = std::move(read);
  return Status::ok();
}

// A rank on a CPU counts as one; ranks of one process share a device.
int64_t Training::devices() const {
  const plan::Plan &plan = engine_->plan();
  return plan.target == plan::Target::cpu || processes_ ? plan.mesh.worldSize() : 1;
}

void Training::account(const TrainingStep &step) {
  if (step.result.isUpdated) {
    if (summary_.steps == summary_.skipped)
      summary_.firstLoss = step.result.loss;
    summary_.lastLoss = step.result.loss;
  }
  ++summary_.steps;
  summary_.skipped += !step.result.isUpdated;
  summary_.tokens += static_cast<double>(engine_->plan().globalBatchSize * engine_->plan().sequenceLength);
  summary_.seconds += step.seconds;
}

// Interrupted before the first step there is nothing to keep, and maybe an older checkpoint to lose.
Status Training::saveAtTheEnd() {
  return summary_.interrupted && summary_.steps == 0 ? Status::ok()
                                                     : saves_.saveAtTheEnd(stepsDone(), skipped());
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
  const Status saved = !ran.isOk() || otherFailed_ ? saveAfter(ran) : saveAtTheEnd();
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
  if (Status saved = saveAtTheEnd(); !saved.isOk())
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
