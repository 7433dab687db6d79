// CheckpointRecord: checkpoint.json, which says what a checkpoint is of and which files it has: docs/checkpoints.md.
#pragma once

#include "runtime/checkpoint/StateFiles.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mgc {

// Flags and their values, in one order: {"--lr", "0.001"}.
using Settings = std::vector<std::pair<std::string, std::string>>;

// ValueHistory: how many of a training's first values, losses or norms, there were, and the largest of them (StepChecks.h).
struct ValueHistory {
  int64_t seen = 0;
  double largest = 0;
  bool operator==(const ValueHistory &) const = default;
};

// BestEvaluation: the least validation loss of a training, after how many steps, and the evaluations since then.
struct BestEvaluation {
  int64_t step = 0;
  double loss = 0;
  int64_t since = 0;
  bool operator==(const BestEvaluation &) const = default;
};

struct CheckpointRecord {
  static constexpr int64_t kVersion = 1;
  static constexpr const char *kFile = "checkpoint.json";

  int64_t step = 0; // training steps done
  int64_t samples = 0;
  std::string model, layout; // for people
  int64_t globalBatchSize = 0, sequenceLength = 0;
  Settings data, optimizer;
  std::vector<CheckpointFile> files;
  // Steps and samples that were done without an update; the file has the numbers if they are not 0.
  int64_t skipped = 0, skippedSamples = 0;
  std::optional<ValueHistory> losses = {}, norms = {}; // only for a training that checks them
  // Settings of the plan (plan::Plan::settings), and those of the run that may be others with a note.
  Settings plan = {}, noted = {};
  std::vector<std::string> owed =
      {}; // "validation", "test": evaluations after `step` that a request to end has cut off
  std::optional<BestEvaluation> best = {}; // only for a training that was evaluated
  bool operator==(const CheckpointRecord &) const = default;
};

// The text of checkpoint.json.
std::string printRecord(const CheckpointRecord &record);

// Reads the record of `folder`, a checkpoint. The text is hostile: an error that names the file and what is wrong in
// it.
Result<CheckpointRecord> readRecord(const std::string &folder);
Result<CheckpointRecord> parseRecord(std::string_view text);

} // namespace mgc
