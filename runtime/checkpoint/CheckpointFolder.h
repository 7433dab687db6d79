// The folder of --save, which has one checkpoint after another, and what --load names: docs/checkpoints.md, Files.
//   iter_0000020.saving    being written, or of a save that was killed
//   iter_0000020           complete
//   iter_0000020.removing  being removed
#pragma once

#include "runtime/checkpoint/CheckpointRecord.h"

#include <functional>
#include <map>
#include <set>

namespace mgc {

// Complete checkpoints of the folder, by step: those with a record. A folder of such a name without one is a user's own.
std::map<int64_t, std::string> checkpointsIn(const std::string &folder);

// The file that has the step of the checkpoint from which a training goes on, under Megatron-LM's name. A save writes its own; a
// user who goes back to an older one writes that one's. While a save completes, the file is not there.
inline constexpr const char *kLatestFile = "latest_checkpointed_iteration.txt";

// A symbolic link in the folder to the checkpoint with the least validation loss.
inline constexpr const char *kBestLink = "best";

// The folder of a checkpoint that `path` names: itself, or as a folder of --save that of kLatestFile, without the file the newest.
// Nothing: `path` is neither, but may have weights of Hugging Face. An error: the file names a step that is not in the folder.
Result<std::optional<std::string>> findCheckpoint(const std::string &path);

// The permission to save into a folder: for a run that continues the training there.
struct Continued {
  std::optional<int64_t> step = {}; // step of the checkpoint in this folder that the run continues
  bool force = false;               // removes other checkpoints after the first save
  bool keepsBest = false;           // the checkpoint of CheckpointRecord::best stays, whatever its age, as kBestLink
  std::optional<int64_t> best = {}; // its step, as the checkpoint that is continued has it
};

// A --save folder as the one process sees it that completes checkpoints; it holds the folder's lock.
class CheckpointFolder {
public:
  // Removes what killed saves left, and gives notes of it for people. An error: the folder has checkpoints that the run does not continue.
  static Result<CheckpointFolder> open(const std::string &folder, int64_t retain, const Continued &continued,
                                       std::vector<std::string> &notes);

  // Where all ranks write the files of a checkpoint, which begin() makes new and empty.
  static std::string stagingOf(const std::string &folder, int64_t step);
  static std::string pathOf(const std::string &folder, int64_t step); // path of a complete checkpoint
  Status begin(int64_t step);
  bool has(int64_t step) const { return own_.contains(step); } // complete, of this training
  // Makes the checkpoint that begin() began complete, with config.json, if there is one, and its record. Then all go but the
  // newest `retain` of this training and the best.
  Status complete(const CheckpointRecord &record, const std::string &config);
  // Changes the record of a complete checkpoint, whose files stay as they are.
  Status amend(int64_t step, const std::function<void(CheckpointRecord &)> &change);
  // The end of complete(), for a checkpoint that is there: a run that was killed may not have come so far.
  Status settle() const;
  void discard(int64_t step); // removes the checkpoint that begin() began

private:
  CheckpointFolder(std::string folder, int64_t retain) : folder_(std::move(folder)), retain_(retain) {}
  std::string pathOf(int64_t step) const;
  Status verifyFiles(const CheckpointRecord &record) const;
  Status forgetLatest(int64_t next) const;
  void removeOthers() const;
  void findBest(const Continued &continued);
  void considerAsBest(const CheckpointRecord &record);
  Status linkBest() const;

  std::string folder_;
  int64_t retain_ = 0;    // 0: all
  std::set<int64_t> own_; // steps of the checkpoints of this training
  bool keepsBest_ = false;
  std::optional<int64_t> best_; // step of the one that stays whatever its age
};

} // namespace mgc
