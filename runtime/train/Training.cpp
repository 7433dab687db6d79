// See Training.h.
#include "runtime/train/Training.h"

#include "runtime/comm/hosts/StoreHosts.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/RunMemory.h"
#include "runtime/train/RunOptions.h"
#include "runtime/train/RunSettings.h"
#include "runtime/train/TrainingOfRank.h"
#include "runtime/train/TrainingPart.h"
#include "runtime/train/VerifyTraining.h"

namespace mgc {

namespace {

// All parts of a run, one after the other. The state goes from one to the next by a checkpoint: a process never has room for two.
class WholeRun {
public:
  WholeRun(const TrainingOptions &options, TrainingObserver &observer, Interrupt &interrupt)
      : options_(optionsOfRank(options)), observer_(observer), interrupt_(interrupt) {
    shared_.checks = StepChecks(options_.checks);
    shared_.evaluations = EvaluationProgress(options_.earlyStop);
  }
  ~WholeRun() { shared_.part.reset(); }
  Result<TrainingSummary> run();
  // The last word to the other processes, and what they have to say.
  Status end(const Status &status) {
    const Status closed = status.isOk() && shared_.world ? shared_.world->close() : status;
    if (!shared_.processes)
      return closed;
    const bool shareScreen = options_.launch.mpi != MpiKind::none;
    const Processes::Tell tell = [this](const Status &error) { observer_.failed(error); };
    return shared_.processes->end(closed, shareScreen ? tell : nullptr);
  }

private:
  Status open();
  Status verify();
  Status findIterations();
  Status verifyModelOfStart();
  Status join();

  TrainingOptions options_;
  TrainingObserver &observer_;
  Interrupt &interrupt_;
  RunShared shared_;
  TrainingStart start_;
  std::optional<RunPlans> plans_;
  std::optional<plan::Plan> evaluation_;
};

Status WholeRun::open() {
  MGC_SET(start_, findStart(options_));
  if (start_.continues) {
    shared_.checks.goOnFrom(start_.record);
    const bool comparesLosses = changesOf(settingsOf(options_, {Agrees::evaluation}), start_.record.noted).empty();
    shared_.evaluations.goOnFrom(start_.record, comparesLosses);
    if (start_.record.best && !comparesLosses)
      observer_.noted(
          fmt::format("{}: evaluates on other batches than the checkpoint, so the least validation loss and "
                      "--early-stop count anew",
                      start_.by));
  }
  MGC_SET(plans_, RunPlans::open(options_));
  options_.optimizer.rule = plans_->whole().optimizer;
  MGC_TRY(findIterations());
  MGC_TRY(verifyIterations(options_, start_.step()));
  MGC_TRY(checkOptimizer(options_.optimizer, options_.scheduleLength(), options_.trainIters));
  if (options_.evalInterval > 0) {
    MGC_ASSIGN(evaluation, readEvaluationPlan(options_.plan, plans_->whole()));
    MGC_TRY(plans_->addHash(evaluation).status());
    evaluation_ = std::move(evaluation);
  }
  MGC_TRY(verifySamples(options_, plans_->sizes(), evaluation_ ? &*evaluation_ : nullptr));
  return verify();
}

Status WholeRun::findIterations() {
  if (!options_.trainSamples)
    return Status::ok();
  options_.trainIters = plans_->sizes().stepsWithin(*options_.trainSamples);
  return options_.trainIters > 0
             ? Status::ok()
             : errorf("--train-samples {}: is less than the global batch of the plan, expected at least {}",
                      *options_.trainSamples, plans_->sizes().rangeOf(0).size);
}

Status WholeRun::verify() {
  const plan::Plan &plan = plans_->whole();
  MGC_TRY(verifyPlanFlags(options_, plan));
  MGC_TRY(verifyModelFlags(options_, plan));
  MGC_TRY(verifyModelOfStart());
  const Launch &launch = options_.launch;
  if (!launch.isAlone() && launch.size != plan.mesh.worldSize())
    return errorf("{}: the plan has {} ranks, found {} processes ({}); expected as many, or one, which runs all ranks",
                  options_.plan, plan.mesh.worldSize(), launch.size, launch.by);
  if (!launch.isAlone() && plan.target == plan::Target::cpu && !options_.mpi)
    return errorf("{}: the plan is for CPUs, and MPI carries the data of its {} processes ({}): {}; expected mpirun -n "
                  "{} mgrun of Open MPI or MPICH, or one process, which runs all ranks",
                  options_.plan, launch.size, launch.by, options_.whyNoMpi, launch.size);
  return Status::ok();
}

Status WholeRun::verifyModelOfStart() {
  if (!start_.path() || !options_.verifyModel)
    return Status::ok();
  const Status same = options_.verifyModel(plans_->whole().modelConfig, *start_.path(), start_.continues);
  if (same.isOk())
    return same;
  if (!options_.ignoreConfig)
    return errorf("{}: {}\n--ignore-config loads it all the same", start_.by, same.message());
  observer_.noted(fmt::format("{}: {}\n--ignore-config: goes on with what the plan has", start_.by, same.message()));
  return Status::ok();
}

Status WholeRun::join() {
  const plan::Plan &plan = plans_->whole();
  MGC_ASSIGN(processes, Processes::join(options_.launch, identityOf(options_, plan, plans_->hash(), start_.describe()),
                                        options_.timeout));
  shared_.processes = std::move(processes);
  if (plan.target != plan::Target::cpu) {
    shared_.storeHosts = makeStoreHosts(*shared_.processes, options_.timeout);
    return Status::ok();
  }
  MGC_SET(shared_.world, MpiWorld::open(*options_.mpi, *shared_.processes, options_.timeout));
  return Status::ok();
}

// Losses, throughput and outputs of both.
TrainingSummary joined(const TrainingSummary &before, TrainingSummary last) {
  if (before.steps == 0)
    return last;
  if (before.steps > before.skipped) {
    last.firstLoss = before.firstLoss;
    if (last.steps == last.skipped)
      last.lastLoss = before.lastLoss;
  }
  last.steps += before.steps, last.skipped += before.skipped;
  last.tokens += before.tokens, last.seconds += before.seconds;
  if (last.outputs.isOk())
    last.outputs = before.outputs;
  return last;
}

Result<TrainingSummary> WholeRun::run() {
  const Status opened = open();
  if (!opened.isOk() && !options_.launch.isAlone())
    Processes::excuse(options_.launch, opened);
  MGC_TRY(Status(opened));
  shared_.limits = memoryLimits(); // before another process can have allocated
  if (!options_.launch.isAlone())
    MGC_TRY(join());
  const plan::Plan *evaluation = evaluation_ ? &*evaluation_ : nullptr;
  if (const plan::Plan &whole = plans_->whole(); takesMachineMemory(whole)) // the largest
    MGC_TRY(verifyRunMemory(options_, whole, evaluation, shared_.processes.get(), shared_.limits));
  TrainingSummary summary;
  while (true) {
    MGC_ASSIGN(part, trainPart(options_, *plans_, evaluation, start_, shared_, observer_, interrupt_));
    summary = joined(summary, part.summary);
    if (part.isOver)
      return summary;
    MGC_SET(start_, startOfNextPart(options_, part.stepsDone));
  }
}

} // namespace

bool Interrupt::abort() {
  std::lock_guard lock(mutex_);
  ended_ = engine_ != nullptr;
  if (engine_)
    engine_->abort(Status::error("interrupted in the middle of a step; nothing is saved"));
  return engine_ != nullptr;
}

bool Interrupt::isTraining() {
  std::lock_guard lock(mutex_);
  return isTraining_;
}

void Interrupt::watch(Engine *engine) {
  std::lock_guard lock(mutex_);
  engine_ = engine;
  isTraining_ |= engine != nullptr;
}

void Interrupt::leave() {
  std::lock_guard lock(mutex_);
  isTraining_ = false;
}

Result<TrainingSummary> train(const TrainingOptions &options, TrainingObserver &observer, Interrupt &interrupt) {
  WholeRun run(options, observer, interrupt);
  Result<TrainingSummary> summary = run.run();
  interrupt.leave();
  MGC_TRY(run.end(summary.status()));
  return summary;
}

} // namespace mgc
