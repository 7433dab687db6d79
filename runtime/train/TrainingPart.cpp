// See TrainingPart.h.
#include "runtime/train/TrainingPart.h"

#include "runtime/base/File.h"
#include "runtime/base/Problems.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/measure/Trace.h"
#include "runtime/train/EngineSetup.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/GatherTimers.h"
#include "runtime/train/RunMemory.h"
#include "runtime/train/RunSaves.h"
#include "runtime/train/StartParameters.h"
#include "runtime/train/StepData.h"
#include "runtime/train/StepLogs.h"
#include "runtime/train/VerifyTraining.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <limits>

namespace mgc {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class TrainingPart {
public:
  TrainingPart(const TrainingOptions &options, const RunPlans &plans, const plan::Plan *evaluation,
               const TrainingStart &start, RunShared &shared, TrainingObserver &observer, Interrupt &interrupt)
      : options_(options), plans_(plans), evaluationPlan_(evaluation), start_(start), shared_(shared),
        observer_(observer), interrupt_(interrupt),
        end_(std::min(options.trainIters, sizes().nextChange(start.step()).value_or(options.trainIters))),
        saves_(options_, start_, shared.evaluations, observer) {}
  ~TrainingPart() { interrupt_.watch(nullptr); }
  Result<PartResult> run();

private:
  Status load();
  Status openData();
  Status openLogs();
  Status runSteps();
  Result<PartResult> checkStart(); // all processes
  std::string describeBatch(int64_t step, const GlobalBatch &batch);
  Status saveAtTheEnd();
  Status saveAfter(const Status &failure);
  Status trace() const;
  Status profile();

  const plan::BatchSizes &sizes() const { return plans_.sizes(); }
  EvaluationProgress &evaluations() const { return shared_.evaluations; }
  Processes *processes() const { return shared_.processes.get(); }
  bool isFirst() const { return shared_.parts == 1; }
  bool endsTraining() const { return end_ == options_.trainIters; }
  int64_t stepsDone() const { return start_.step() + summary_.steps; }
  bool isWriter() const { return options_.launch.rank == 0; }
  Status verifyThreads();
  // A process's vote before each step; the greatest vote counts for all.
  enum Vote { goOn, ended, interrupted, failed };
  Result<Vote> vote(const Status &failure);

  Status loadEngine(plan::Plan plan);
  Status loadEvaluation();
  DataReading dataReading() { return {&interrupt_.requested(), &shared_.texts}; }
  void readAhead();
  // The rest of the evaluations of this step, until one does not come to its end in all processes.
  Status evaluateOwed();
  Result<bool> evaluate(Split split); // whether it came to its end, in all processes
  Status makeUpEvaluations();
  Status evaluateAtTheEnd();
  Status runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start);
  void skipStep(int64_t step, Clock::time_point start); // one without a label
  Status concludeBadStep(int64_t step, bool isUpdated);
  TrainedSoFar skipped() const;
  TrainedSoFar trainedBefore(int64_t step) const;
  Status writeGradients();
  Status readLoads(std::vector<ExpertLoad> &loads) const;
  Status readTimers(std::vector<StepTimer> &timers); // all processes
  Status readNorms(std::vector<LayerNorm> &norms) const;
  double scaleOfMean() const { return 1.0 / std::max(1.0, engine_->results().tokens); }
  int64_t devices() const; // devices that compute a step
  void account(TrainingStep &step);
  bool isExitDue() const;
  // After the steps: whether no part follows.
  bool isOver() const {
    return endsTraining() || summary_.interrupted || summary_.endedEarly || otherFailed_ || !failure_.isOk();
  }

  const TrainingOptions options_;
  const RunPlans &plans_;
  const plan::Plan *const evaluationPlan_; // null: nothing is evaluated
  const TrainingStart &start_;
  RunShared &shared_;
  TrainingObserver &observer_;
  Interrupt &interrupt_;
  const int64_t end_; // the step behind the part's last
  std::optional<StepData> data_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Evaluation> evaluation_;
  std::optional<StepWork> work_;       // if throughput is asked for
  std::optional<GradientNorms> norms_; // if those of layers are
  StepTimers timers_{options_.timersLevel};
  StepLogs logs_;
  RunSaves saves_;     // after the engine: ends before it
  MachineRates rates_; // if profiled
  TrainingSummary summary_;
  bool haveGradients_ = false; // in the file of --save-gradients
  int64_t unlabelled_ = 0;     // steps without a label, in a row
  Status failure_;             // outside the engine: of the data; too many bad steps
  bool otherFailed_ = false;   // the same in another process
  bool isBetweenSteps_ = true; // the ranks hold the weights after summary_.steps whole steps, all finite
};

Status TrainingPart::load() {
  MGC_ASSIGN(plan, plans_.planOf(start_.step()));
  if (takesMachineMemory(plan))
    MGC_TRY(verifyRunMemory(options_, plan, evaluationPlan_, processes(), shared_.limits));
  if (isFirst())
    MGC_TRY(verifyOutputs(options_, plan));
  if (options_.save && isWriter())
    MGC_TRY(saves_.prepare(plan, std::ranges::count_if(sizes().ranges(), [&](const auto &range) {
                             return range.firstStep > start_.step() && range.firstStep < options_.trainIters;
                           })));
  MGC_TRY(loadEngine(std::move(plan)));
  if (processes() && isFirst() && engine_->plan().target == plan::Target::cpu)
    MGC_TRY(verifyThreads());
  const Status opened = openData();
  if (!opened.isOk() && interrupt_.isRequested())
    interrupt_.end();
  MGC_TRY(Status(opened));
  MGC_ASSIGN(changes, verifyContinues(start_, options_, engine_->plan(), sizes(), data_->source()));
  for (const std::string &change : changes)
    observer_.noted(fmt::format("{} {}: {}", start_.by, *start_.checkpoint, change));
  MGC_TRY(loadParameters(options_, start_, *engine_, processes(), observer_));
  MGC_TRY(saves_.begin(*engine_, processes(), sizes(), shared_.checks, data_->source()));
  MGC_TRY(openLogs());
  if (options_.logsNormsByLayer)
    norms_.emplace(engine_->plan(), engine_->arenas());
  if (options_.findStepWork)
    work_ = options_.findStepWork(engine_->plan());
  if (options_.isProfiled() && !options_.endsBeforeSteps) {
    MGC_TRY(engine_->greatest(goOn).status()); // all processes measure at once
    MGC_SET(rates_, engine_->measureRates());
  }
  if (const std::string note = start_.note(options_); !note.empty())
    observer_.noted(note);
  TrainingOptions shown = options_;
  shown.plan = plans_.folderOf(start_.step());
  observer_.began(shown, *engine_, data_->describe());
  if (evaluation_ && isFirst())
    observer_.noted(evaluation_->describe());
  return Status::ok();
}

Status TrainingPart::openLogs() {
  if (options_.endsBeforeSteps)
    return StepLogs::verify(options_);
  const std::optional<int64_t> step = start_.continued(options_);
  if (!step)
    return logs_.open(options_, std::nullopt);
  MGC_TRY(
      logs_.open(options_, LogContinuation{*step, evaluation_ ? evaluations().owed() : std::vector<std::string>()}));
  if (isFirst())
    observer_.continued(*step);
  return Status::ok();
}

// Opens the data of training and of evaluation, and the engine that evaluates.
Status TrainingPart::openData() {
  const int64_t samples = options_.trainSamples.value_or(sizes().samplesBefore(options_.trainIters));
  MGC_ASSIGN(data, StepData::open(
                       options_, start_, engine_->plan(),
                       {Split::train, options_.trainIters, samples, sizes().rangeOf(start_.step()), dataReading()}));
  if (!data)
    return errorf("--data-path: there is nothing to train on: the split train has no sequences; expected a "
                  "larger first part of --split, or --train-data-path");
  data_ = std::move(data);
  return loadEvaluation();
}

// Ranks that compute the same must split it equally.
Status TrainingPart::verifyThreads() {
  const std::string own = std::to_string(engine_->threadsPerRank());
  MGC_ASSIGN(all, processes()->store().gather("threads", processes()->rank(), processes()->size(), own,
                                              processes()->deadline()));
  const std::string &first = all.front();
  if (first == own)
    return Status::ok();
  return errorf("rank {} has {} threads for the cores it may use, rank 0 {}; expected as many for all: --threads {}",
                processes()->rank(), engine_->threadsPerRank(), first, first);
}

Status TrainingPart::loadEngine(plan::Plan plan) {
  EngineOptions engine =
      engineOptions(options_, shared_, plan.target, fmt::format("batches of {}", plan.globalBatchSize));
  // The first step is a warm-up: nothing is in the caches, and most of the memory is touched for the first time.
  const int64_t first = start_.step() + std::min<int64_t>(1, end_ - start_.step() - 1);
  const int64_t traced = std::min(options_.traceSteps, end_ - first);
  engine.timeline = {first, options_.isTraced() ? traced : 0, first, options_.isProfiled()};
  if (options_.timersLevel > 0 && !options_.isProfiled()) {
    engine.timeline.measure = true;
    engine.timeline.measureFirst = start_.step();
    engine.timeline.measureEvery = options_.logInterval;
  }
  MGC_SET(engine_, Engine::create(std::move(plan), plans_.folderOf(start_.step()), engine));
  interrupt_.watch(engine_.get());
  return Status::ok();
}

Status TrainingPart::loadEvaluation() {
  if (!evaluationPlan_)
    return Status::ok();
  const EngineOptions engine =
      engineOptions(options_, shared_, evaluationPlan_->target,
                    fmt::format("evaluation beside batches of {}", plans_.sizes().rangeOf(start_.step()).size));
  MGC_SET(evaluation_, Evaluation::open(options_, start_, *engine_, *evaluationPlan_, engine, dataReading()));
  return Status::ok();
}

void TrainingPart::readAhead() {
  engine_->readAhead([this](int64_t step) -> const GlobalBatch * {
    if (step >= end_ || interrupt_.isRequested())
      return nullptr;
    // An error of the batch is reported when its step comes.
    const Result<const GlobalBatch *> batch = data_->batchOf(step);
    return batch.isOk() ? *batch : nullptr;
  });
}

// A failure outside the engine ends the training between two steps, in all processes at the same one.
Result<TrainingPart::Vote> TrainingPart::vote(const Status &failure) {
  const bool isEnd = isExitDue() || (evaluation_ && evaluations().endsTraining());
  const Vote own = !failure.isOk() ? failed : interrupt_.isRequested() ? interrupted : isEnd ? ended : goOn;
  MGC_ASSIGN(greatest,
             engine_->greatest(own).at(fmt::format("rank {}, before step {}", options_.launch.rank, stepsDone())));
  return static_cast<Vote>(greatest);
}

Status TrainingPart::runSteps() {
  readAhead();
  MGC_TRY(makeUpEvaluations());
  for (int64_t step = start_.step();; ++step) {
    const auto start = Clock::now();
    const bool isLast = step == end_;
    if (evaluation_ && ((isLast && endsTraining()) || evaluations().endsTraining()))
      MGC_TRY(evaluateAtTheEnd());
    const GlobalBatch *batch = nullptr;
    if (failure_.isOk() && !isLast && !interrupt_.isRequested()) {
      observer_.started(fmt::format("step {}", step));
      Result<const GlobalBatch *> read = data_->batchOf(step);
      failure_ = read.status();
      batch = read.isOk() ? *read : nullptr;
    }
    MGC_ASSIGN(votes, vote(failure_));
    otherFailed_ = votes == failed && failure_.isOk();
    summary_.interrupted = votes == interrupted;
    summary_.endedEarly = votes == ended && step < options_.trainIters;
    if (votes == ended && evaluations().endsTraining())
      observer_.noted(evaluations().whyItEnds());
    if (isLast || votes != goOn)
      return failure_;
    if (batch)
      MGC_TRY(runStep(step, *batch, start));
    else
      skipStep(step, start);
    evaluations().trained();
    if (evaluation_ && evaluation_->isDue(stepsDone())) {
      evaluations().begin(Split::valid);
      MGC_TRY(evaluateOwed());
    }
    saves_.poll();
    if (saves_.isDue(stepsDone())) {
      Status saved = saves_.saveBetween(stepsDone(), skipped());
      isBetweenSteps_ = saved.isOk();
      MGC_TRY(std::move(saved));
    }
  }
}

// A failure outside the engine ends the training before the next step, in all processes.
Result<bool> TrainingPart::evaluate(Split split) {
  observer_.started(fmt::format("{} after {} steps", nameOf(split), stepsDone()));
  interrupt_.watch(&evaluation_->engine());
  Result<Evaluation::Outcome> ended = evaluation_->run(*engine_, split, stepsDone(), interrupt_);
  interrupt_.watch(engine_.get());
  MGC_ASSIGN(outcome, std::move(ended).at("evaluation"));
  if (failure_.isOk()) // else it ends the training already
    failure_ = outcome.failure;
  if (!outcome.isComplete)
    return false;
  evaluations().complete(split, outcome.result, stepsDone());
  if (outcome.result.tokens == 0) {
    observer_.noted(fmt::format("{} after {} steps: all labels of its {} batches are {}, so there is no loss",
                                nameOf(split), stepsDone(), outcome.result.batches, kIgnoredLabel));
    return true;
  }
  for (const std::string &note : logs_.write(outcome.result))
    observer_.noted(note);
  observer_.evaluated(outcome.result);
  return true;
}

Status TrainingPart::evaluateOwed() {
  for (Split split : {Split::valid, Split::test}) {
    if (!evaluations().owes(split) || !evaluation_->has(split))
      continue;
    MGC_ASSIGN(isComplete, evaluate(split));
    if (!isComplete)
      break;
  }
  return Status::ok();
}

// Evaluations that the checkpoint lacks, as far as this run would have come to them.
Status TrainingPart::makeUpEvaluations() {
  const std::vector<std::string> owed = evaluations().owed();
  if (owed.empty() || !isFirst())
    return Status::ok();
  const std::string lacks = fmt::format("{} after {} steps: was cut off", fmt::join(owed, " and "), stepsDone());
  if (!evaluation_) {
    observer_.noted(fmt::format("{}, and without --eval-interval is not made up", lacks));
    return Status::ok();
  }
  if (!evaluation_->isDue(stepsDone()) && stepsDone() < options_.trainIters)
    return Status::ok(); // it was the end of a shorter training
  const bool wasOver = stepsDone() == options_.trainIters || evaluations().endsTraining();
  if (!wasOver)
    evaluations().drop(Split::test);
  observer_.noted(fmt::format("{}, and is made up", lacks));
  MGC_TRY(evaluateOwed());
  if (!wasOver && evaluations().endsTraining())
    evaluations().begin(Split::test); // as behind a step
  saves_.amend(stepsDone());
  return saves_.isBest(stepsDone()) ? saves_.saveBetween(stepsDone(), skipped()) : Status::ok();
}

Status TrainingPart::evaluateAtTheEnd() {
  if (summary_.steps > 0) {
    if (!evaluation_->isDue(stepsDone()))
      evaluations().begin(Split::valid);
    if (evaluation_->has(Split::test))
      evaluations().begin(Split::test);
  }
  const bool isMadeUp = summary_.steps == 0 && !evaluations().owed().empty();
  MGC_TRY(evaluateOwed());
  if (isMadeUp)
    saves_.amend(stepsDone());
  return Status::ok();
}

// As Megatron-LM's --exit-interval and --exit-duration-in-mins; minutes count from when the run began, its loading too.
bool TrainingPart::isExitDue() const {
  const bool isInterval = options_.exitInterval > 0 && summary_.steps > 0 && stepsDone() % options_.exitInterval == 0;
  const bool isTime = options_.exitMinutes && secondsSince(shared_.began) >= *options_.exitMinutes * 60;
  return isInterval || (isTime && summary_.steps > 0);
}

// Without an update, by this run and by those that it goes on from.
TrainedSoFar TrainingPart::skipped() const {
  const CheckpointRecord before = start_.continues ? start_.record : CheckpointRecord();
  return {before.skipped + summary_.skipped,
          before.skippedSamples + summary_.skipped * engine_->plan().globalBatchSize};
}

TrainedSoFar TrainingPart::trainedBefore(int64_t step) const {
  const TrainedSoFar left = skipped();
  return {step - left.steps, data_->firstOf(step) - left.samples};
}

// A mean over no tokens is no number, and of gradients of zero the update would be weight decay and old moments alone.
void TrainingPart::skipStep(int64_t step, Clock::time_point start) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr int64_t kMostInARow = 100;
  TrainingStep done;
  done.step = step;
  done.result.loss = done.result.crossEntropy = done.result.gradientNorm = kNone;
  done.result.isUpdated = false;
  done.lr = learningRate(options_.optimizer, options_.scheduleLength(), trainedBefore(step));
  done.seconds = secondsSince(start);
  account(done);
  const std::string found = data_->describeUnlabelled(step);
  observer_.noted(fmt::format("step {}: {}; it is skipped", step, found));
  for (const std::string &note : logs_.write(done, engine_->plan()))
    observer_.noted(note);
  observer_.stepped(done);
  if (++unlabelled_ == kMostInARow)
    failure_ = errorf("step {}: {}; so were those of the {} steps before, expected data with labels", step, found,
                      kMostInARow - 1);
}

Status TrainingPart::runStep(int64_t step, const GlobalBatch &batch, Clock::time_point start) {
  unlabelled_ = 0;
  const TrainedSoFar trained = trainedBefore(step);
  const double lr = learningRate(options_.optimizer, options_.scheduleLength(), trained);
  const bool writes = isFirst() && !haveGradients_ && options_.saveGradients;
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
  if (shared_.checks.skips())
    accepts = [&](const StepResult &complete) { return shared_.checks.judge(complete); };
  isBetweenSteps_ = false;
  MGC_ASSIGN(result,
             engine_->step(step, batch, stepScalars(options_.optimizer, lr, trained.steps), beforeUpdate, accepts));
  const bool isGood = accepts ? result.isUpdated : shared_.checks.judge(result);
  TrainingStep done{step, result, lr, secondsSince(start), loads};
  done.norms = std::move(norms);
  if (options_.hasTimers(step))
    MGC_TRY(readTimers(done.timers));
  if (work_)
    done.throughput = throughputOf(*work_, engine_->plan(), done.seconds, devices());
  account(done);
  isBetweenSteps_ = !result.isUpdated || (isGood && shared_.checks.isFinite());
  for (const std::string &note : logs_.write(done, engine_->plan()))
    observer_.noted(note);
  observer_.stepped(done);
  return isGood ? Status::ok() : concludeBadStep(step, result.isUpdated);
}

// An error: its update happened, and nothing of it may be saved. A failure that ends a run with good weights is in
// failure_.
Status TrainingPart::concludeBadStep(int64_t step, bool isUpdated) {
  const std::string finding = fmt::format(
      "step {}: {}", step, shared_.checks.finding().empty() ? "another process refused it" : shared_.checks.finding());
  const std::string data = "the step's data: " + data_->describeBatch(step);
  const std::string why = shared_.checks.isFinite() ? "" : "; " + whyNotFinite(start_, engine_->plan(), step);
  if (isUpdated)
    return errorf("{}{}; --skip-bad-steps N would leave its update out\n{}", finding, why, data);
  observer_.noted(fmt::format("{}; its update is skipped\n{}", finding, data));
  if (shared_.checks.isOver())
    failure_ = errorf("{}{}; --skip-bad-steps {} skips as many in a row, and this is one more\n{}", finding, why,
                      options_.checks.skips, data);
  return Status::ok();
}

// The gradients in the ranks are of the summed loss; those written are of the loss, the mean over the tokens.
Status TrainingPart::writeGradients() {
  haveGradients_ = true;
  const auto scale = static_cast<float>(scaleOfMean());
  return saveGradients(engine_->plan(), engine_->arenas(), scale, *options_.saveGradients, engine_->hosts());
}

Status TrainingPart::readNorms(std::vector<LayerNorm> &norms) const {
  MGC_SET(norms, norms_->read(scaleOfMean(), engine_->hosts()));
  return Status::ok();
}

Status TrainingPart::readTimers(std::vector<StepTimer> &timers) {
  std::vector<std::vector<double>> ofRanks = timers_.read(engine_->recording());
  if (processes())
    MGC_SET(ofRanks, gatherTimers(*processes(), ofRanks.front()));
  timers = timers_.timersOf(ofRanks);
  return Status::ok();
}

Status TrainingPart::readLoads(std::vector<ExpertLoad> &loads) const {
  MGC_SET(loads, expertLoads(engine_->plan(), engine_->arenas(), engine_->hosts()));
  return Status::ok();
}

// A rank on a CPU counts as one; ranks of one process share a device.
int64_t TrainingPart::devices() const {
  const plan::Plan &plan = engine_->plan();
  return plan.target == plan::Target::cpu || processes() ? plan.mesh.worldSize() : 1;
}

void TrainingPart::account(TrainingStep &step) {
  step.samples = data_->firstOf(step.step + 1);
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

// Interrupted before the run's first step there is nothing to keep, and maybe an older checkpoint to lose.
Status TrainingPart::saveAtTheEnd() {
  if (summary_.interrupted && summary_.steps == 0 && isFirst())
    return Status::ok();
  if (isOver())
    return saves_.saveAtTheEnd(stepsDone(), skipped());
  const Status saved = saves_.saveForNextPart(stepsDone(), skipped());
  MGC_ASSIGN(votes, vote(saved)); // until all know that it is whole
  if (votes == failed)
    return saved.isOk() ? Status::error("another process could not save") : saved;
  summary_.interrupted = votes == interrupted;
  summary_.endedEarly = votes == ended;
  return isOver() ? saves_.saveAtTheEnd(stepsDone(), skipped()) : Status::ok();
}

Status TrainingPart::trace() const {
  return options_.trace ? writeTrace(engine_->plan(), engine_->recording(), *options_.trace) : Status::ok();
}

// Interrupted before the second step there is none.
Status TrainingPart::profile() {
  if (!options_.isProfiled() || engine_->recording().steps == 0)
    return Status::ok();
  // Other work of the machine varies: the better measurement counts.
  MGC_ASSIGN(after, engine_->measureRates());
  rates_ = {std::max(rates_.flops, after.flops), std::max(rates_.bf16Flops, after.bf16Flops),
            std::max(rates_.bytes, after.bytes)};
  summary_.profile = profileOf(*engine_, rates_);
  return options_.profileJson ? writeFileAtomically(*options_.profileJson, toJson(*summary_.profile)) : Status::ok();
}

Result<PartResult> TrainingPart::run() {
  ++shared_.parts;
  summary_.trainIters = options_.trainIters;
  MGC_TRY(load());
  if (options_.endsBeforeSteps)
    return checkStart();
  const Status ran = runSteps();
  summary_.deviceMemory = engine_->deviceMemory();
  const Status logged = logs_.finish();
  const Status traced = trace(); // also if the run failed
  const Status saved = !ran.isOk() || otherFailed_ ? saveAfter(ran) : saveAtTheEnd();
  const Status profiled = saved.isOk() ? profile() : Status::ok();
  const bool haveAllEnded = ran.isOk() && saved.isOk() && !otherFailed_;
  const Status shown = observer_.ended(summary_, *engine_, haveAllEnded ? processes() : nullptr);
  MGC_TRY(saved);
  summary_.isTraced = options_.trace && traced.isOk();
  summary_.isProfileWritten = options_.profileJson && summary_.profile && profiled.isOk();
  summary_.isPageWritten = options_.page && shown.isOk();
  summary_.outputs = allOf({logged, traced, profiled, shown});
  return PartResult{summary_, stepsDone(), isOver()};
}

Result<PartResult> TrainingPart::checkStart() {
  const int64_t step = start_.step();
  StartReport report{describeMemory(engine_->plan(),
                                    ranksOfRun(options_, engine_->plan(), evaluationPlan_, processes()),
                                    shared_.limits),
                     fmt::format("none: all {} steps of the training are done", step)};
  if (step < end_) {
    const Result<const GlobalBatch *> batch = data_->batchOf(step);
    failure_ = batch.status();
    if (batch.isOk())
      report.batch = *batch ? describeBatch(step, **batch) : data_->describeUnlabelled(step);
  }
  MGC_ASSIGN(votes, vote(failure_));
  MGC_TRY(Status(failure_));
  if (votes == failed)
    return Status::error("another process refused its data");
  summary_.start = std::move(report);
  summary_.interrupted = votes == interrupted;
  return PartResult{summary_, stepsDone(), true};
}

// "step 0: 1008 of 1024 tokens count in the loss; corpus.txt: .."
std::string TrainingPart::describeBatch(int64_t step, const GlobalBatch &batch) {
  const auto counted = std::ranges::count_if(batch.labels, [](int32_t label) { return label != kIgnoredLabel; });
  return fmt::format("step {}: {} of {} tokens count in the loss; {}", step, counted, batch.labels.size(),
                     data_->describeBatch(step));
}

// Trained weights are not lost if something other than the training failed.
Status TrainingPart::saveAfter(const Status &failure) {
  const bool haveAllEnded = !processes() || !failure_.isOk() || otherFailed_; // here, to save together
  if (!options_.save || !isBetweenSteps_ || summary_.steps == 0 || !haveAllEnded)
    return failure;
  if (Status saved = saveAtTheEnd(); !saved.isOk())
    return failure.isOk() ? saved
                          : errorf("{}\nthe weights of the {} steps before are lost too: {}", failure.message(),
                                   stepsDone(), saved.message());
  if (failure.isOk())
    return failure;
  return errorf("{}\nthe weights after {} steps are in {}", failure.message(), stepsDone(), *options_.save);
}

} // namespace

Result<PartResult> trainPart(const TrainingOptions &options, const RunPlans &plans, const plan::Plan *evaluation,
                             const TrainingStart &start, RunShared &shared, TrainingObserver &observer,
                             Interrupt &interrupt) {
  shared.part.reset(); // there is no room for two
  const auto part = std::make_shared<TrainingPart>(options, plans, evaluation, start, shared, observer, interrupt);
  shared.part = part;
  return part->run();
}

} // namespace mgc
