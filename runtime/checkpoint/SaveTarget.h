// The folder of --save, looked at before a training of hours: whether the checkpoint has room there, what it would replace, and
// what killed saves left.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mgc {

struct SaveTarget {
  std::string folder;
  std::optional<plan::DType> type; // see SaveOptions
  bool isRepeated = false;         // saves during the training, too: two checkpoints exist for a while
  bool force = false;              // replaces also weights of another model, and those of `loaded`
  std::string loaded = {};         // weights of Hugging Face that the run begins with, a file or folder; empty: none
  // Whether a folder's config.json is of the plan's model; null: it is taken to be.
  std::function<Status(const std::string &planConfig, const std::string &folder)> verifyModel;
  int64_t checkpoints = 0; // how many checkpoints of training state the folder may get at once
};

// Bytes of the plan's weights in this type, without small files.
int64_t weightBytes(const plan::Plan &plan, plan::DType type);

// Bytes that must be free for saves, of which all but the first replace their own: the new checkpoint is whole before the
// old one, of `old` bytes, goes.
int64_t bytesToSave(int64_t checkpoint, int64_t old, bool isRepeated);

// Removes what killed saves left, and gives notes of it for people. The caller holds the folder's lock. An error: the folder is a
// checkpoint, holds one of another model or `loaded`, or has no room.
Result<std::vector<std::string>> prepareSave(const plan::Plan &plan, const SaveTarget &target);

} // namespace mgc
