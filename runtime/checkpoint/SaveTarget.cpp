// See SaveTarget.h.
#include "runtime/checkpoint/SaveTarget.h"

#include "runtime/base/File.h"
#include "runtime/base/MachineMemory.h"

#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/Replacement.h"
#include "runtime/checkpoint/StateFiles.h"
#include "runtime/checkpoint/StateTensors.h"
#include "runtime/checkpoint/Weights.h"

#include <algorithm>
#include <cerrno>
#include <fmt/ranges.h>
#include <limits>
#include <regex>
#include <sys/resource.h>
#include <sys/statvfs.h>

namespace mgc {

namespace fs = std::filesystem;

namespace {

// --- Files that killed saves left: NAME.tmp-PID-N of a file being written, NAME.replaced-PID of one being replaced.

// The names that saves write.
bool isNameOfSave(const std::string &name) {
  static const std::regex names(
      R"(best|config\.json|latest_checkpointed_iteration\.txt|model\.safetensors(\.index\.json)?|model-(v\d+-)?\d+-of-\d+\.safetensors)");
  return std::regex_match(name, names);
}

bool isShard(const std::string &name) { return name.starts_with("model-") && isNameOfSave(name); }

bool isLeftover(const std::string &name) {
  const std::string of = name.substr(0, name.rfind('.'));
  static const std::regex replaced(R"(\.replaced-\d+)");
  return isNameOfSave(of) &&
         (isTemporaryOf(of, name) || std::regex_match(name.begin() + std::ssize(of), name.end(), replaced));
}

// This run has the folder's lock: no other one needs them.
void removeLeftovers(const fs::path &folder, std::vector<std::string> &notes) {
  const std::set<std::string> checkpoint = checkpointFiles(folder);
  forEachEntry(folder.string(), [&](const fs::directory_entry &file) {
    const std::string name = file.path().filename().string();
    std::error_code failed;
    if (isLeftover(name) && fs::remove(file.path(), failed))
      notes.push_back(fmt::format("{}: left by a save that was killed; removed", file.path().string()));
    if (isShard(name) && !checkpoint.contains(name))
      notes.push_back(fmt::format("{}: no index names this shard; remove it where it is of a save that was killed",
                                  file.path().string()));
  });
}

// --- The checkpoint that a save would replace.

// The size of the weight files that the next save removes.
int64_t bytesOf(const fs::path &folder) {
  int64_t bytes = 0;
  for (const std::string &name : checkpointFiles(folder)) {
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(folder / name, error));
    bytes += error ? 0 : size;
  }
  return bytes;
}

// An export there would go with the checkpoint, when newer ones take its place.
Status verifyIsNoCheckpoint(const SaveTarget &target) {
  std::error_code ignored;
  return fs::exists(fs::path(target.folder) / CheckpointRecord::kFile, ignored)
             ? errorf("{}: is a checkpoint, which goes with all in it when a newer one takes its place; expected "
                      "another folder",
                      target.folder)
             : Status::ok();
}

// Weights that the run begins with are the user's, and may be the only copy.
Status verifyKeepsLoaded(const SaveTarget &target) {
  std::error_code ignored;
  const auto holds = [&](const fs::path &loaded) {
    return fs::equivalent(fs::is_directory(loaded, ignored) ? loaded : loaded.parent_path(), target.folder, ignored);
  };
  if (target.force || target.loaded.empty() ||
      (!holds(fs::absolute(target.loaded, ignored)) &&
       !holds(fs::canonical(target.loaded, ignored)))) // a link to a file
    return Status::ok();
  std::set<std::string> files = checkpointFiles(target.folder);
  files.insert("config.json");
  return errorf(
      "{}: holds the weights that --load begins with, and the save would replace {}; expected another folder; "
      "--force replaces them all the same",
      target.folder, fmt::join(files, ", "));
}

Status verifyReplaced(const plan::Plan &plan, const SaveTarget &target) {
  constexpr std::string_view kWays = "expected another folder; --force replaces it all the same";
  if (target.force)
    return Status::ok();
  const Status same = target.verifyModel ? target.verifyModel(plan.modelConfig, target.folder) : Status::ok();
  if (!same.isOk())
    return errorf("{}: holds the config.json of another model:\n{}\n{}", target.folder, same.message(), kWays);
  if (checkpointFiles(target.folder).empty())
    return Status::ok();
  const Result<Checkpoint> old = Checkpoint::open(target.folder);
  if (!old.isOk())
    return errorf("{}: holds a checkpoint that cannot be read: {}\n{}", target.folder, old.status().message(), kWays);
  if (const Status fits = verifyFits(plan, *old); !fits.isOk())
    return errorf("{}: holds a checkpoint of another model:\n{}\n{}", target.folder, fits.message(), kWays);
  return Status::ok();
}

// --- Room.

double inMib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Status verifyFileSizes(const plan::Plan &plan, const SaveTarget &target) {
  const int64_t most = softLimit(RLIMIT_FSIZE);
  if (most == std::numeric_limits<int64_t>::max())
    return Status::ok();
  const int64_t weights = std::min(weightBytes(plan, target.type.value_or(plan.dtype)), SaveOptions().maxShardBytes);
  const int64_t largest = std::max(weights, target.checkpoints > 0 ? largestStateFile(plan) : 0);
  return largest <= most ? Status::ok()
                         : errorf("{}: a file of the checkpoint has {:.1f} MiB, files of this process may "
                                  "have {:.1f} MiB (ulimit -f)",
                                  target.folder, inMib(largest), inMib(most));
}

Status verifyRoom(const plan::Plan &plan, const SaveTarget &target) {
  struct statvfs system{};
  if (::statvfs(target.folder.c_str(), &system) != 0)
    return Status::ok(); // some file systems do not say
  const auto free = static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_frsize);
  const int64_t needed =
      bytesToSave(weightBytes(plan, target.type.value_or(plan.dtype)), bytesOf(target.folder), target.isRepeated) +
      target.checkpoints * stateBytes(plan);
  return needed <= free ? Status::ok()
                        : errorf("{}: {:.1f} MiB are free, saving needs {:.1f} MiB: a new checkpoint is whole "
                                 "before the old one goes",
                                 target.folder, inMib(free), inMib(needed));
}

} // namespace

int64_t weightBytes(const plan::Plan &plan, plan::DType type) {
  int64_t bytes = 0;
  for (const FileTensor &tensor : fileTensors(plan))
    bytes += tensor.savedBytes(type);
  return bytes;
}

int64_t bytesToSave(int64_t checkpoint, int64_t old, bool isRepeated) {
  return isRepeated ? std::max(checkpoint, 2 * checkpoint - old) : checkpoint;
}

Result<std::vector<std::string>> prepareSave(const plan::Plan &plan, const SaveTarget &target) {
  std::vector<std::string> notes;
  MGC_TRY(verifyIsNoCheckpoint(target));
  MGC_TRY(verifyReplaced(plan, target));
  MGC_TRY(verifyKeepsLoaded(target));
  removeLeftovers(target.folder, notes);
  MGC_TRY(verifyFileSizes(plan, target));
  MGC_TRY(verifyRoom(plan, target));
  return notes;
}

} // namespace mgc
