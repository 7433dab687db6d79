// A training run from a plan folder to saved weights: what mgrun does, without its flags and its screen.
#pragma once

#include "plan/BatchSizes.h"
#include "runtime/base/OutputFile.h"
#include "runtime/checkpoint/GradientNorms.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/comm/mpi/MpiProcess.h"
#include "runtime/exec/Engine.h"
#include "runtime/measure/Profile.h"
#include "runtime/measure/StepTimers.h"
#include "runtime/random/Seed.h"
#include "runtime/train/OptimizerSchedule.h"
#include "runtime/train/StepChecks.h"
#include "runtime/train/Throughput.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

namespace mgc {

// A file of the run and the flag that names it.
struct NamedFile {
  std::string flag;
  std::filesystem::path path;
};

// A file that the observer writes at the end, when the training failed too.
struct ObserverOutput {
  OutputKind kind;
  std::string path;
};

// TypedOptions: what the user typed that other options follow from, and what is for the screen or the start of the processes.
struct TypedOptions {
  std::vector<std::string> dataPath;                              // TrainingOptions::corpus
  std::array<std::vector<std::string>, kSplits.size()> dataPaths; // --train-data-path ..: the same
  std::string split = "969,30,1";                                 // the same
  bool mockData = false;
  std::optional<std::string> config;                                         // the flags have what it says
  std::optional<int64_t> lrDecaySamples, lrWarmupSamples, lrWsdDecaySamples; // OptimizerOptions::lrDecay ..
  std::vector<int64_t> rampup;          // TrainingOptions::rampup: three numbers, or none
  std::optional<double> warmupFraction; // OptimizerOptions::lrWarmup
  std::string lrList;                   // OptimizerOptions::lrList: a file
  double timeoutSeconds = 600;          // TrainingOptions::timeout
  bool logsThroughput = false;          // TrainingOptions::findStepWork
  std::optional<std::string> html;      // TrainingOptions::page
  std::string launchBy = "auto";        // LaunchFlags::mode
  LaunchFlags launch;                   // TrainingOptions::launch
  int64_t maxRestarts = 0;
  std::string timersOf = "minmax"; // --timing-log-option
};

// RunOptions.h has a row for each that a flag sets.
struct TrainingOptions {
  TypedOptions typed;
  std::string plan;                // folder
  Launch launch;                   // alone: all ranks are threads of this process; else each is a process
  MpiProcess *mpi = nullptr;       // carries the data of CPU ranks that are processes; null: there is none
  std::string whyNoMpi;            // the condition that is missing
  std::optional<std::string> data; // none: see `corpus`
  CorpusOptions corpus;            // without files, as is `data`: makeMockData
  bool hasCorpus() const { return !corpus.files.prefixes().empty(); }
  std::optional<std::string> validData; // beside `data`: what is evaluated on
  std::string binType;                  // see DataOptions
  bool textBytes = false;               // see DataOptions
  DocumentOptions documents;            // see DataOptions
  MaskingOptions masking;               // see DataOptions
  TokenizerFiles tokenizer;             // see DataOptions
  ChatOptions chats;                    // see DataOptions
  // A checkpoint, a folder of --save, or weights of Hugging Face; none: weights are initialised from the seed.
  std::optional<std::string> load;
  bool restartsFromLatest =
      false;             // from the latest checkpoint in the folder of `save`, if there is one, instead of `load`
  bool finetune = false; // a checkpoint's weights begin a new training
  bool overridesOptimizer = false; // the optimizer's options may be others than those of the checkpoint
  bool ignoreExtraWeights = false; // Hugging Face's: see loadWeights
  // Whether the config.json of a folder, or next to a file of weights, is of the model whose config.json the plan has, and for a
  // run that continues a checkpoint, trains as that does; null: it is taken to.
  std::function<Status(const std::string &planConfig, const std::string &checkpoint, bool isContinued)> verifyModel;
  bool ignoreConfig = false; // --load may be of any model, and of a plan with other settings
  std::optional<std::string> save, saveGradients, log;
  std::string runFile;                    // beside what is saved: see RunFile.h; empty: none
  bool savesTokenizer = true;             // with the weights: see TokenizerAssets.h
  std::optional<std::string> tensorboard; // folder of event files
  int64_t tensorboardInterval = 1;        // steps from one event to the next
  bool logsLoads = false;                 // in the log, of each router whose load is counted, the tokens of its experts
  int timersLevel = 0;                    // level of --timing-log-level; 0: no timers
  int64_t logInterval = 100;              // steps from one line on the screen to the next; the same steps have timers
  bool timersInTensorboard = false;
  bool logsNormsByLayer = false;                 // in the log, the gradient's norm of each layer
  FindStepWork findStepWork = nullptr;           // for the throughput of each step; null: it is not asked for
  std::optional<std::string> trace, profileJson; // files, written when the training ends, after an error too
  std::optional<ObserverOutput> page;            // for which steps are traced and profiled too
  int64_t traceSteps = 3;                        // after the first; of a run of one step, that one
  bool profile = false;                          // also with profileJson
  bool force = false;                            // --save may replace a checkpoint of another model
  bool endsBeforeSteps = false;                  // --check: nothing is trained, no weights or logs are written
  std::vector<NamedFile> inputs; // other files the run's numbers come from: no output may be one of them
  int64_t trainIters = 100;
  // The training's length in samples, where it is counted in them, as its schedule is then (OptimizerOptions::bySamples). Then
  // trainIters are at most so many; train() finds how many by the plans.
  std::optional<int64_t> trainSamples;
  std::optional<plan::BatchRampup>
      rampup; // the global batch grows to that of the plan, by the plans in PLAN/batch-SIZE; with trainSamples
  int64_t scheduleLength() const { return optimizer.bySamples ? *trainSamples : trainIters; }
  // Where a run ends before its last step, and saves: after a multiple of so many steps (0: at none), after so many minutes.
  int64_t exitInterval = 0;
  std::optional<double> exitMinutes;
  // Steps from one evaluation to the next (0: there is none), and the batches of one: of other data than those of training. The last
  // is at the end, where there are data of the split test of them too.
  int64_t evalInterval = 0, evalIters = 100;
  int64_t earlyStop =
      0; // evaluations in a row without a lower validation loss, after which the training ends; 0: none do
  // As many as Megatron-LM reads for: one more than there are intervals.
  int64_t evaluations() const { return trainIters / evalInterval + 1; }
  std::optional<plan::DType> saveType; // see SaveOptions
  int64_t saveInterval = 0;            // steps from one save to the next; 0: at the end only
  int64_t saveRetain = 1;              // checkpoints that stay; 0: all
  bool saveBest = false;               // a checkpoint where the validation loss is the least, which stays
  bool asyncSave = false;              // checkpoints between steps are written while training goes on
  bool savesWeightsAlone = false;      // --save: no checkpoint of all training state beside the weights
  uint64_t seed = kDefaultSeed;
  CheckOptions checks;
  OptimizerOptions optimizer;
  int threads = 0;                        // per rank; 0: see EngineOptions. Plans for the CPU only
  std::optional<Bf16Product> bf16Product; // for bf16 plans on the CPU; none: the faster one, see Bf16Choice.h
  // Options of plans for a device; each is refused where it means nothing.
  std::optional<int> device; // its number; none: that of the process on its machine
  std::optional<std::string> devicePlugin;
  bool nonDeterministic = false, noGraphs = false;
  bool tuneProducts = false;            // see DeviceOptions
  std::optional<std::string> tuneCache; // none: the default one
  std::chrono::milliseconds timeout{600'000};
  bool poison = false;            // see EngineOptions
  std::optional<uint64_t> delays; // seed of random pauses before instructions; none may change a bit

  bool savesBetween() const { // before the last step
    return saveBest || (saveInterval > 0 && saveInterval < trainIters);
  }
  // Whether each rank keeps a copy of its state while it is written.
  bool copiesState() const { return save && !savesWeightsAlone && asyncSave && savesBetween(); }
  bool hasTimers(int64_t step) const { return timersLevel > 0 && step % logInterval == 0; }
  bool isTraced() const { return trace || page; }
  bool isProfiled() const { return profile || profileJson || page; }
};

struct TrainingStep {
  int64_t step = 0; // from 0
  StepResult result;
  double lr = 0, seconds = 0;
  std::vector<ExpertLoad> loads = {};        // if asked for
  std::optional<Throughput> throughput = {}; // if asked for
  std::vector<StepTimer> timers = {};        // if asked for
  std::vector<LayerNorm> norms = {};         // likewise: of the gradients of the mean loss, before they are clipped
  int64_t samples = 0;                       // samples that the training has read, with those of this step
};

// The result for the weights after `step`, which counts from 0.
struct EvaluationResult {
  int64_t step = 0;
  std::string_view what; // "validation", "test"
  double loss = 0;       // the cross-entropy, mean over all tokens that count
  double tokens = 0;     // tokens that count; 0: there is no loss
  double seconds = 0;
  int64_t batches = 0;
  double perplexity() const; // e^loss; of a loss beyond 20 that of 20, as Megatron-LM has it
};

// For people: the findings of a run that ends before its first step.
struct StartReport {
  std::string memory, batch; // memory of the ranks here; the first batch, or why there is none
};

struct TrainingSummary {
  int64_t trainIters = 0; // iterations of the training
  int64_t steps = 0;      // done by this run
  int64_t skipped = 0;    // steps without an update
  bool interrupted = false;
  bool endedEarly = false;                  // by exitInterval, exitMinutes or earlyStop
  double firstLoss = 0, lastLoss = 0;       // losses of steps that were not skipped
  double tokens = 0, seconds = 0;           // totals of all steps; tokens read, counted in the loss or not
  std::optional<StartReport> start;         // if that is all that was asked for
  std::optional<Profile> profile;           // if asked for, and a step after the first ran
  std::optional<DeviceMemory> deviceMemory; // after the last step
  bool isTraced = false, isProfileWritten = false, isPageWritten = false; // into their files
  Status outputs; // whether the trace, the profile, the page and the whole log could be written
};

class Processes;

class TrainingObserver {
public:
  virtual ~TrainingObserver() = default;
  // Before began(), where the run goes on with a training that may have been logged: at this step, to which the log is cut.
  virtual void continued(int64_t) {}
  virtual void began(const TrainingOptions &options, const Engine &engine, const std::string &data) = 0;
  // From now on until the next call, for people: "step 12", "validation after 12 steps", "saving after 12 steps".
  virtual void started(const std::string &) {}
  virtual void stepped(const TrainingStep &step) = 0;
  virtual void evaluated(const EvaluationResult &) {}
  // After all else, before the engine goes: writes TrainingOptions::page. `others`: where ranks are processes and the run has not
  // failed; all processes call it then.
  virtual Status ended(const TrainingSummary &, const Engine &, Processes * /*others*/) { return Status::ok(); }
  // The error that ends the run, which train() then gives without a text: in rank 0, where the processes share a screen.
  virtual void failed(const Status &) {}
  virtual void noted(const std::string &) {} // for people: a problem that does not stop the training
};

// Lets another thread end a run: request() after the step that runs, abort() in the middle of it.
class Interrupt {
public:
  void request() { requested_ = true; }
  bool isRequested() const { return requested_; }
  const std::atomic<bool> &requested() const { return requested_; }
  bool isTraining(); // the run has begun: it ends after its step
  bool abort();      // false: no engine runs
  // A run that the request itself ended before it was complete, without a failure of its own.
  void end() { ended_ = true; }
  bool hasEnded() const { return ended_; }
  void watch(Engine *engine); // null: none, for now
  void leave();               // the run is over

private:
  std::atomic<bool> requested_{false}, ended_{false};
  std::mutex mutex_;
  Engine *engine_ = nullptr;
  bool isTraining_ = false; // also where one engine has gone and the next is made
};

// Runs all steps from where --load stopped, up to an interrupt or where it is to exit, then saves; not if interrupted
// before the first step. When the data fail, the weights of the steps before are saved too. A log that cannot be
// written does not end the training: summary.outputs says so. Nor, in a process that has all ranks, does a save before
// the last: the observer is told. A step that TrainingOptions::checks finds bad is an error that names its data, after which
// nothing is saved, as after an error in a step; or it is skipped: its data are used up, and nothing else changes, neither
// weights and moments nor the place in the schedule of the learning rate. After too many in a row the run ends, saved. So is a
// step skipped whose batch has no label that counts, and an evaluation without one has no result.
// The log has one JSON object per line: LossLog.h.
//
// Where ranks are processes, all call it with the same options. Rank 0 writes the log, the weights and the gradients;
// traces and profiles are of a process's own rank, in files of its own: see pathOfRank. The error of one ends all; who
// had it is told it in full, the others whose it was. Where a launcher of an MPI puts what all print on one screen, rank 0 alone
// tells it (TrainingObserver::failed), and the error has no text.
Result<TrainingSummary> train(const TrainingOptions &options, TrainingObserver &observer, Interrupt &interrupt);

// "trace.json" of rank 3: "trace.rank3.json".
std::string pathOfRank(const std::string &path, int64_t rank);

} // namespace mgc
