// RunSaves: what a run puts into the folder of --save, and when.
//   in:  the ranks' memory between two steps
//   out: weights for transformers, gathered (Weights.h), and checkpoints of all training state (CheckpointSaver.h)
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Owned.h"
#include "runtime/checkpoint/TokenizerAssets.h"
#include "runtime/train/CheckpointSaver.h"
#include "runtime/train/EvaluationProgress.h"
#include "runtime/train/RunFile.h"
#include "runtime/train/TrainingStart.h"

#include <filesystem>

namespace mgc {

class RunSaves {
public:
  // The references outlive the object.
  RunSaves(const TrainingOptions &options, const TrainingStart &start, const EvaluationProgress &evaluations,
           TrainingObserver &observer)
      : options_(options), start_(start), evaluations_(evaluations), observer_(observer) {}

  // Before there is an engine: makes the folder and locks it. An error: it cannot hold what will be saved. For rank 0 alone.
  // `changes`: changes of the batch that are still to come, each with a checkpoint.
  Status prepare(const plan::Plan &plan, int64_t changes);
  // The ranks whose memory is saved, and the data of the checkpoints' records. Null processes: this one has all ranks.
  Status begin(Engine &engine, Processes *processes, const plan::BatchSizes &sizes, const StepChecks &checks,
               const DataSource &data);

  // Whether its checkpoint is that of the least validation loss, which stays.
  bool isBest(int64_t stepsDone) const { return options_.saveBest && evaluations_.isBest(stepsDone); }
  bool isDue(int64_t stepsDone) const; // between two steps: the last step's save is the one at the end
  // An error: the training must end, for what would be saved must not be, or all processes must know at once. Another failure
  // is noted, and tried again at the next interval and at the end.
  // `skipped`: of the steps done, without an update.
  Status saveBetween(int64_t stepsDone, const TrainedSoFar &skipped);
  Status saveAtTheEnd(int64_t stepsDone, const TrainedSoFar &skipped);
  // After evaluations behind a checkpoint's step: its record, if it is in the folder of --save.
  void amend(int64_t stepsDone);
  // A checkpoint of all state, with which the steps of the next batch size begin. The caller then waits for all processes.
  Status saveForNextPart(int64_t stepsDone, const TrainedSoFar &skipped);
  // Notes how an asynchronous save went that has ended since the last call.
  void poll();

private:
  // Rank 0 asks the others for weights, which would hold up their training.
  bool writesWeights(bool isLast) const { return isLast || !options_.asyncSave; }
  Status openFolder(std::vector<std::string> &notes);
  Status readAssets();
  int64_t checkpointsAtOnce(int64_t changes) const;
  Status save(int64_t stepsDone, const TrainedSoFar &skipped, bool isLast);
  Status verifyWeights(int64_t stepsDone);
  Status writeWeights(int64_t stepsDone);
  Status placed(Status status, int64_t stepsDone) const;
  Status saveState(int64_t stepsDone, const TrainedSoFar &skipped, bool isLast);
  void note(const Status &saved);
  static void removeEmpty(const std::vector<std::filesystem::path> &folders);
  using MadeFolders = Owned<std::vector<std::filesystem::path>, removeEmpty>;

  const TrainingOptions &options_;
  const TrainingStart &start_;
  const EvaluationProgress &evaluations_;
  TrainingObserver &observer_;
  Engine *engine_ = nullptr;
  Processes *processes_ = nullptr;
  const plan::BatchSizes *sizes_ = nullptr;
  const StepChecks *checks_ = nullptr;
  const DataSource *data_ = nullptr;
  Descriptor lock_;                        // lock of the folder of --save
  MadeFolders made_;                       // folders of --save that were not there: empty ones go with the run
  TokenizerAssets assets_;                 // rank 0's
  RunFile runFile_;                        // rank 0's
  std::optional<CheckpointFolder> folder_; // rank 0's, until the saver has it
  std::unique_ptr<CheckpointSaver> saver_; // null: weights alone
};

} // namespace mgc
