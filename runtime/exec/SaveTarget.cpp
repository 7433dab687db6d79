// See SaveTarget.h.
#include "runtime/exec/SaveTarget.h"

#include "runtime/base/Safetensors.h"
#include "runtime/exec/Shard.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sys/statvfs.h>

namespace mgc {

namespace fs = std::filesystem;

namespace {

// --- What killed saves left: NAME.tmp-PID-N of a file that was being written, NAME.old-PID of one that was replaced.

std::optional<int64_t> processOf(std::string_view name) {
  for (std::string_view mark : {".tmp-", ".old-"})
    if (const size_t at = name.rfind(mark); at != name.npos) {
      const std::string_view stem = name.substr(0, at), number = name.substr(at + mark.size());
      int64_t process = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), process);
      const bool isOurs = stem == "config.json" || stem.starts_with("model");
      if (error == std::errc() && isOurs && process > 0)
        return process;
    }
  return std::nullopt;
}

// A process of this machine that lives, or one of another that wrote a moment ago, may still need it.
bool isAbandoned(const fs::directory_entry &file, int64_t process) {
  constexpr auto kLately = std::chrono::minutes(1);
  std::error_code error;
  const auto written = file.last_write_time(error);
  const bool isDead = ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
  return isDead && !error && fs::file_time_type::clock::now() - written > kLately;
}

void removeLeftovers(const fs::path &folder, std::vector<std::string> &notes) {
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder, error)) {
    const std::optional<int64_t> process = processOf(file.path().filename().string());
    if (!process)
      continue;
    std::error_code failed;
    if (isAbandoned(file, *process) && fs::remove(file.path(), failed))
      notes.push_back(fmt::format("{}: left by a save that was killed; removed", file.path().string()));
    else
      notes.push_back(fmt::format("{}: of a save that is running or was killed; remove it where no other run "
                                  "saves into this folder",
                                  file.path().string()));
  }
}

// --- What a save would replace.

bool hasCheckpoint(const fs::path &folder) {
  std::error_code ignored;
  return fs::exists(folder / "model.safetensors", ignored) ||
         fs::exists(folder / "model.safetensors.index.json", ignored);
}

int64_t bytesOf(const fs::path &folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder, error))
    if (file.path().extension() == ".safetensors")
      bytes += static_cast<int64_t>(file.file_size(error));
  return bytes;
}

// What shows that the weights are of another model; empty: nothing.
std::string differenceFrom(const plan::Plan &plan, const Checkpoint &old) {
  std::set<const TensorView *> known;
  for (const FileTensor &tensor : fileTensors(plan)) {
    const TensorView *found = old.find(tensor.name);
    if (!found)
      return fmt::format("{} is missing in it", tensor.name);
    if (found->shape != tensor.shape)
      return fmt::format("{} has the shape {}, in the plan {}", tensor.name, shapeToString(found->shape),
                         shapeToString(tensor.shape));
    known.insert(found);
  }
  for (const std::string &name : old.names())
    if (!known.contains(old.find(name)))
      return fmt::format("{} is not in the plan", name);
  return "";
}

Status verifyReplaced(const plan::Plan &plan, const SaveTarget &target) {
  constexpr std::string_view kWays = "expected another folder; --force replaces it all the same";
  if (target.force || !hasCheckpoint(target.folder))
    return Status::ok();
  const Result<Checkpoint> old = Checkpoint::open(target.folder);
  if (!old.isOk())
    return errorf("{}: holds a checkpoint that cannot be read: {}\n{}", target.folder, old.status().message(),
                  kWays);
  if (const std::string difference = differenceFrom(plan, *old); !difference.empty())
    return errorf("{}: holds a checkpoint of another model: {}\n{}", target.folder, difference, kWays);
  if (const Status same =
          target.verifyModel ? target.verifyModel(plan.modelConfig, target.folder) : Status::ok();
      !same.isOk())
    return errorf("{}: holds a checkpoint of another model:\n{}\n{}", target.folder, same.message(), kWays);
  return Status::ok();
}

// --- Room.

double inMib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Status verifyRoom(const plan::Plan &plan, const SaveTarget &target) {
  struct statvfs system{};
  if (::statvfs(target.folder.c_str(), &system) != 0)
    return Status::ok(); // some file systems do not say
  const auto free = static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_frsize);
  const int64_t needed = bytesToSave(checkpointBytes(plan, target.type.value_or(plan.dtype)),
                                     bytesOf(target.folder), target.isRepeated);
  return needed <= free
             ? Status::ok()
             : errorf("{}: {:.1f} MiB are free, saving needs {:.1f} MiB: a new checkpoint is whole "
                      "before the old one goes",
                      target.folder, inMib(free), inMib(needed));
}

} // namespace

int64_t checkpointBytes(const plan::Plan &plan, plan::DType type) {
  int64_t bytes = 0;
  for (const FileTensor &tensor : fileTensors(plan))
    bytes += tensor.elements() * sizeInBytes(type);
  return bytes;
}

int64_t bytesToSave(int64_t checkpoint, int64_t old, bool isRepeated) {
  return isRepeated ? std::max(checkpoint, 2 * checkpoint - old) : checkpoint;
}

Result<std::vector<std::string>> prepareSave(const plan::Plan &plan, const SaveTarget &target) {
  std::vector<std::string> notes;
  MGC_TRY(verifyReplaced(plan, target));
  removeLeftovers(target.folder, notes);
  MGC_TRY(verifyRoom(plan, target));
  return notes;
}

} // namespace mgc
