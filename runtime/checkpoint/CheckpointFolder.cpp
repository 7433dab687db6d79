// See CheckpointFolder.h.
#include "runtime/checkpoint/CheckpointFolder.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"

#include <charconv>
#include <filesystem>
#include <fmt/ranges.h>
#include <regex>
#include <unistd.h>

namespace mgc {

namespace fs = std::filesystem;

namespace {

constexpr const char *kRemoving = ".removing";

std::string nameOfStep(int64_t step) { return fmt::format("iter_{:07}", step); } // as Megatron-LM's

std::optional<int64_t> numberIn(std::string_view text) {
  while (!text.empty() && text.back() == '\n')
    text.remove_suffix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

// The step of iter_0000020, and what follows: "", ".saving" or ".removing".
std::optional<std::pair<int64_t, std::string>> stepNamed(const std::string &name) {
  static const std::regex pattern(R"(iter_(\d{7,18})(|\.saving|\.removing))");
  std::smatch parts;
  if (!std::regex_match(name, parts, pattern))
    return std::nullopt;
  const std::optional<int64_t> step = numberIn(parts[1].str());
  return step && name.starts_with(nameOfStep(*step)) ? std::optional(std::pair(*step, parts[2].str())) : std::nullopt;
}

// It is not seen as a checkpoint as soon as its first file goes.
void removeCheckpoint(const std::string &path) {
  std::error_code ignored;
  fs::rename(path, path + kRemoving, ignored);
  fs::remove_all(path + kRemoving, ignored);
}

Status renameFolder(const std::string &from, const std::string &to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? errorf("{}: cannot become {}: {}", from, to, error.message()) : Status::ok();
}

std::string latestFileOf(const std::string &folder) { return (fs::path(folder) / kLatestFile).string(); }

Status refuseOthers(const std::string &folder, const std::map<int64_t, std::string> &others,
                    const Continued &continued) {
  const int64_t newest = others.rbegin()->first;
  if (!continued.step)
    return errorf("{}: holds checkpoints of another training, the newest of step {}; expected --load {}, which goes on "
                  "from it with the same training, another folder, or --force, which removes them after the first save",
                  folder, newest, folder);
  return errorf(
      "{}: holds checkpoints behind step {}, from which the run goes on, the newest of step {}; expected "
      "another folder, to keep both, --force, which removes those behind it after the first save, or {} in {} "
      "and --load {}, which go on from the newest",
      folder, *continued.step, newest, newest, kLatestFile, folder);
}

} // namespace

std::map<int64_t, std::string> checkpointsIn(const std::string &folder) {
  std::map<int64_t, std::string> found;
  forEachEntry(folder, [&](const fs::directory_entry &entry) {
    const auto step = stepNamed(entry.path().filename().string());
    std::error_code ignored;
    if (step && step->second.empty() && fs::exists(entry.path() / CheckpointRecord::kFile, ignored))
      found[step->first] = entry.path().string();
  });
  return found;
}

Result<std::optional<std::string>> findCheckpoint(const std::string &path) {
  using Found = std::optional<std::string>;
  std::error_code ignored;
  if (fs::exists(fs::path(path) / CheckpointRecord::kFile, ignored))
    return Found(path);
  const std::map<int64_t, std::string> checkpoints = checkpointsIn(path);
  const std::string latest = latestFileOf(path);
  if (!fs::exists(latest, ignored)) // also where a save was killed just before it wrote the file
    return checkpoints.empty() ? Found() : Found(checkpoints.rbegin()->second);
  MGC_ASSIGN(text, readFile(latest, 4096));
  const std::optional<int64_t> step = numberIn(text);
  if (step && checkpoints.contains(*step))
    return Found(checkpoints.at(*step));
  std::vector<std::string> possible;
  for (const auto &entry : checkpoints)
    possible.push_back(entry.second);
  return errorf("{}: {}; possible for --load: {}", latest,
                step ? fmt::format("names {}, which is not in the folder", nameOfStep(*step))
                     : fmt::format("has \"{}\", expected the number of a step", printable(text.substr(0, 40))),
                possible.empty() ? "none: there is no checkpoint at all"
                                 : fmt::format("{}", fmt::join(possible, ", ")));
}

std::string CheckpointFolder::pathOf(int64_t step) const { return pathOf(folder_, step); }

std::string CheckpointFolder::pathOf(const std::string &folder, int64_t step) {
  return (fs::path(folder) / nameOfStep(step)).string();
}

std::string CheckpointFolder::stagingOf(const std::string &folder, int64_t step) {
  return (fs::path(folder) / (nameOfStep(step) + ".saving")).string();
}

Result<CheckpointFolder> CheckpointFolder::open(const std::string &folder, int64_t retain, const Continued &continued,
                                                std::vector<std::string> &notes) {
  CheckpointFolder opened(folder, retain);
  std::map<int64_t, std::string> others = checkpointsIn(folder);
  if (continued.step)
    for (auto entry = others.begin(); entry != others.end() && entry->first <= *continued.step;) {
      opened.own_.insert(entry->first);
      entry = others.erase(entry);
    }
  if (!others.empty() && !continued.force)
    return refuseOthers(folder, others, continued);
  opened.findBest(continued);
  forEachEntry(folder, [&](const fs::directory_entry &entry) {
    const auto step = stepNamed(entry.path().filename().string());
    if (!step || step->second.empty())
      return;
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
    notes.push_back(fmt::format("{}: left by a save that was killed; removed", entry.path().string()));
  });
  const auto own = std::ssize(opened.own_);
  if (retain > 0 && own > retain) // fewer are to stay than before
    notes.push_back(fmt::format("--save-retain {}: the next save removes {} older checkpoints of {}; 0 keeps all",
                                retain, own + 1 - retain, folder));
  return opened;
}

Status CheckpointFolder::begin(int64_t step) {
  const std::string staging = stagingOf(folder_, step);
  std::error_code error;
  fs::remove_all(staging, error);
  fs::create_directory(staging, error);
  if (error)
    return errorf("{}: cannot make this directory: {}", staging, error.message());
  return Status::ok();
}

// Where machines do not share a file system, a process sees its own files alone.
Status CheckpointFolder::verifyFiles(const CheckpointRecord &record) const {
  for (const CheckpointFile &file : record.files) {
    const std::string path = stagingOf(folder_, record.step) + "/" + file.name;
    std::error_code error;
    const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (error || bytes != file.bytes)
      return errorf("{}: {}, the rank that wrote it reports {} bytes; expected --save in a folder that all "
                    "processes share, or --no-save-optim, with which rank 0 writes weights alone",
                    path, error ? error.message() : fmt::format("has {} bytes", bytes), file.bytes);
  }
  return Status::ok();
}

void CheckpointFolder::removeOthers() const {
  std::map<int64_t, std::string> old = checkpointsIn(folder_);
  const auto kept = std::min<int64_t>(retain_ == 0 ? std::ssize(own_) : retain_, std::ssize(own_));
  for (auto own = own_.rbegin(); own != std::next(own_.rbegin(), kept); ++own)
    old.erase(*own);
  if (best_)
    old.erase(*best_);
  for (const auto &entry : old)
    removeCheckpoint(entry.second);
}

// The link may be older than the checkpoint, of a run that was killed before it changed the link.
void CheckpointFolder::findBest(const Continued &continued) {
  keepsBest_ = continued.keepsBest;
  std::error_code ignored;
  const auto linked = stepNamed(fs::read_symlink(fs::path(folder_) / kBestLink, ignored).string());
  for (const std::optional<int64_t> &step :
       {keepsBest_ ? continued.best : std::nullopt, linked ? std::optional(linked->first) : std::nullopt})
    if (step && own_.contains(*step) && !best_)
      best_ = step;
}

void CheckpointFolder::considerAsBest(const CheckpointRecord &record) {
  if (keepsBest_ && record.best && record.best->step == record.step)
    best_ = record.step;
}

// The new link takes the place of the old one at once. A link to a checkpoint that is gone goes too.
Status CheckpointFolder::linkBest() const {
  const fs::path link = fs::path(folder_) / kBestLink, made = fmt::format("{}.tmp-{}-0", link.string(), ::getpid());
  std::error_code error;
  if (!best_) {
    if (fs::is_symlink(link, error) && !fs::exists(link, error))
      fs::remove(link, error);
    return Status::ok();
  }
  if (fs::read_symlink(link, error) == nameOfStep(*best_))
    return Status::ok();
  fs::create_symlink(nameOfStep(*best_), made, error);
  if (!error)
    fs::rename(made, link, error);
  return error ? errorf("{}: cannot become a link to {}: {}", link.string(), nameOfStep(*best_), error.message())
               : syncDirectoryOf(link.string());
}

Status CheckpointFolder::complete(const CheckpointRecord &record, const std::string &config) {
  const std::string staging = stagingOf(folder_, record.step), path = pathOf(record.step);
  MGC_TRY(verifyFiles(record));
  if (!config.empty())
    MGC_TRY(writeFileAtomically(staging + "/config.json", config));
  MGC_TRY(writeFileAtomically(staging + "/" + CheckpointRecord::kFile, printRecord(record)));
  if (std::error_code ignored; fs::exists(path, ignored)) // with --force: a checkpoint of another training
    removeCheckpoint(path);
  MGC_TRY(forgetLatest(record.step));
  MGC_TRY(renameFolder(staging, path));
  MGC_TRY(syncDirectoryOf(path));
  own_.insert(record.step);
  considerAsBest(record);
  return settle();
}

// While the file is not there, the newest checkpoint is the latest one. With --force another newest one may be there, of another
// training: then the file keeps its step until settle().
Status CheckpointFolder::forgetLatest(int64_t next) const {
  const std::map<int64_t, std::string> all = checkpointsIn(folder_);
  if (!all.empty() && all.rbegin()->first > next)
    return Status::ok();
  const std::string latest = latestFileOf(folder_);
  std::error_code error;
  if (fs::remove(latest, error); error)
    return errorf("{}: cannot be removed: {}", latest, error.message());
  return syncDirectoryOf(latest);
}

Status CheckpointFolder::settle() const {
  MGC_TRY(writeFileAtomically(latestFileOf(folder_), fmt::format("{}\n", *own_.rbegin())));
  const Status linked = linkBest();
  removeOthers();
  return linked;
}

Status CheckpointFolder::amend(int64_t step, const std::function<void(CheckpointRecord &)> &change) {
  MGC_ASSIGN(record, readRecord(pathOf(step)));
  const CheckpointRecord before = record;
  change(record);
  if (record == before)
    return Status::ok();
  MGC_TRY(writeFileAtomically(pathOf(record.step) + "/" + CheckpointRecord::kFile, printRecord(record)));
  considerAsBest(record);
  return settle();
}

void CheckpointFolder::discard(int64_t step) {
  std::error_code ignored;
  fs::remove_all(stagingOf(folder_, step), ignored);
}

} // namespace mgc
