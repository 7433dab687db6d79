// Where a training begins: at step 0 with drawn weights or those of --load, or where a checkpoint stopped.
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/data/Data.h"
#include "runtime/train/Training.h"

namespace mgc {

struct TrainingStart {
  std::optional<std::string> weights;    // file or folder of Hugging Face
  std::optional<std::string> checkpoint; // folder, of which `record` is
  std::string by;                        // the flag that says so
  CheckpointRecord record;
  bool continues = false; // the checkpoint's training: not with --finetune
  std::optional<int64_t> newest =
      {}; // step of the newest checkpoint in the folder, where kLatestFile names an older one

  int64_t step() const { return continues ? record.step : 0; }
  // The step from which the run goes on with a training that may have logged more; none: it begins another.
  std::optional<int64_t> continued(const TrainingOptions &options) const {
    return continues || options.restartsFromLatest ? std::optional(step()) : std::nullopt;
  }
  // The weights or the checkpoint; none: weights are drawn.
  std::optional<std::string> path() const { return checkpoint ? checkpoint : weights; }
  // The description that all processes must have alike.
  std::string describe() const;
  std::string note(const TrainingOptions &options) const; // for people; empty: nothing is to be said
};

// With --restart-from-latest the latest checkpoint in the folder of --save; where there is none, and without the flag, what
// --load names. An error: it names nothing that can be loaded.
Result<TrainingStart> findStart(const TrainingOptions &options);

// Where the part of a run begins that follows one of other batches, which has saved its last step.
Result<TrainingStart> startOfNextPart(const TrainingOptions &options, int64_t stepsDone);

// The record of a checkpoint of this run, without its files. `sizes`: of the whole training.
CheckpointRecord recordOf(const TrainingOptions &options, const plan::Plan &plan, const plan::BatchSizes &sizes,
                          const DataSource &data, int64_t step);

// Whether the run goes on as the checkpoint's would have: data, optimizer, sizes and settings of the plan; all differences at
// once. Those that are no error come as notes for people.
Result<std::vector<std::string>> verifyContinues(const TrainingStart &start, const TrainingOptions &options,
                                                 const plan::Plan &plan, const plan::BatchSizes &sizes,
                                                 const DataSource &data);

} // namespace mgc
