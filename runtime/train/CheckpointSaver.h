// CheckpointSaver: the saves of training state of this process's ranks, which with those of the other processes make a checkpoint:
// docs/checkpoints.md, A save, step by step.
//   in:  the ranks' memory between two steps, and the record of the checkpoint
//   out: a complete checkpoint in the folder, or none
#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/exec/Engine.h"

#include <atomic>
#include <thread>

namespace mgc {

class CheckpointSaver {
public:
  // `folder` is --save's, `completes` the one that completes checkpoints, of rank 0 alone. Without processes all ranks
  // are here. The arguments outlive the saver.
  CheckpointSaver(Engine &engine, Processes *processes, std::string folder, std::optional<CheckpointFolder> completes);
  ~CheckpointSaver(); // ends a save that runs, as finish()

  // All processes call it between the same two steps, after finish(). Concurrently: it returns when the state is copied. A
  // checkpoint of this step that this training has there already stays as it is.
  Status save(CheckpointRecord record, bool isConcurrent);
  // Changes the record of a checkpoint in the folder; nothing where none of this training has the step, or in a process that
  // completes none.
  Status amend(int64_t step, const std::function<void(CheckpointRecord &)> &change) {
    return isWriter() && completes_->has(step) ? completes_->amend(step, change) : Status::ok();
  }
  // Before the first step: no step waits for the memory of the copies. They read nothing, for pages of an arena that are read
  // before they are written are small ones on some systems.
  Status reserveCopies();
  // Waits for the save that runs; its status. Ok where none runs.
  Status finish();
  // Whether one runs that has ended: finish() does not wait.
  bool hasEnded() const { return thread_.joinable() && hasEnded_; }

private:
  using Source = StateFiles::Source;
  using Files = Result<std::vector<CheckpointFile>>;
  Status onFiles(Status (StateFiles::*call)(int threads));
  Result<bool> begin(int64_t step);
  Status write(CheckpointRecord record, Source source, bool isConcurrent);
  Files writeFiles(const std::string &staging, Source source, bool isConcurrent);
  // With the files that this process has written, or why it has none.
  Status end(CheckpointRecord record, const Files &own);
  Status completeTogether(CheckpointRecord record, const Files &own);
  Status completeOrDiscard(const CheckpointRecord &record, const Status &written);
  Status collectReports(const std::vector<std::string> &reports, CheckpointRecord &record);
  std::string keyOf(std::string_view what) const; // key of this save
  bool isWriter() const { return completes_.has_value(); }

  Engine &engine_;
  Processes *const processes_;
  const std::string folder_;
  std::optional<CheckpointFolder> completes_;
  std::vector<std::optional<StateFiles>> files_; // by rank
  int64_t saves_ = 0;                            // begun
  std::thread thread_;
  std::atomic<bool> hasEnded_{false};
  Status status_; // status of the thread's save
};

} // namespace mgc
