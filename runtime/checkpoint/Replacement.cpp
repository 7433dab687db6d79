#include "runtime/checkpoint/Replacement.h"

#include <unistd.h>

namespace mgc {

namespace fs = std::filesystem;

static bool present(const fs::path &path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

Status makeDirectory(const std::string &directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory, error))
    return errorf("{}: cannot make this directory: {}", directory, error ? error.message() : "it is a file");
  return Status::ok();
}

std::vector<std::string> weightFileNames(const fs::path &directory, size_t count) {
  if (count == 1)
    return {"model.safetensors"};
  for (int64_t attempt = 0;; ++attempt) {
    std::vector<std::string> names;
    bool taken = false;
    for (size_t i = 1; i <= count; ++i) {
      std::string version = attempt == 0 ? "" : fmt::format("v{}-", attempt + 1);
      names.push_back(fmt::format("model-{}{:05}-of-{:05}.safetensors", version, i, count));
      taken |= present(directory / names.back());
    }
    if (!taken)
      return names;
  }
}

std::set<std::string> checkpointFiles(const fs::path &directory) {
  std::set<std::string> files;
  if (Result<std::map<std::string, std::string>> index =
          readCheckpointIndex((directory / "model.safetensors.index.json").string());
      index.isOk())
    for (const auto &entry : *index)
      if (entry.second.ends_with(".safetensors")) // whatever an index says, nothing else is deleted
        files.insert(entry.second);
  for (const char *name : {"model.safetensors", "model.safetensors.index.json"})
    if (present(directory / name))
      files.insert(name);
  return files;
}

Replacement::Replacement(const std::string &directory) : directory_(directory), old_(checkpointFiles(directory)) {}

void Replacement::add(const std::string &name, SafetensorsWriter writer) {
  auto held = std::make_shared<SafetensorsWriter>(std::move(writer));
  steps_.push_back({name, [held] { return held->place(); }});
}

Status Replacement::addText(const std::string &name, std::string_view text) {
  MGC_ASSIGN(file, AtomicFile::create(pathOf(name)));
  MGC_TRY(file.write(text));
  MGC_TRY(file.finish());
  auto held = std::make_shared<AtomicFile>(std::move(file));
  steps_.push_back({name, [held] { return held->place(); }});
  return Status::ok();
}

// A file that stays is litter, not damage: no error.
void Replacement::remove(const std::set<std::string> &names) {
  std::error_code ignored;
  for (const std::string &name : names)
    fs::remove(directory_ / name, ignored);
}

Status Replacement::place(const Step &step) {
  const fs::path path = directory_ / step.name;
  const bool isNew = !present(path);
  if (!isNew) {
    std::string link = fmt::format("{}.replaced-{}", step.name, ::getpid());
    std::error_code error;
    fs::create_hard_link(path, directory_ / link, error);
    if (!error)
      kept_[step.name] = link;
  }
  MGC_TRY(step.place());
  if (isNew)
    added_.insert(step.name);
  return Status::ok();
}

// The files that the last file refers to are on disk before the last file is.
Status Replacement::placeAll() {
  for (size_t i = 0; i + 1 < steps_.size(); ++i)
    MGC_TRY(place(steps_[i]));
  MGC_TRY(syncDirectoryOf(pathOf("")));
  return place(steps_.back());
}

// rename() of two names of one file does nothing, so what is left of the links goes afterwards.
void Replacement::undo() {
  std::error_code ignored;
  for (const auto &[name, link] : kept_)
    fs::rename(directory_ / link, directory_ / name, ignored);
  removeLinks();
  remove(added_);
}

void Replacement::removeLinks() {
  for (const auto &[name, link] : kept_)
    remove({link});
}

// Readers look for this name first: shards become visible when it is gone.
Status Replacement::removeSingleFile() {
  const fs::path single = directory_ / "model.safetensors";
  std::error_code error;
  if (old_.erase("model.safetensors") && !fs::remove(single, error) && error)
    return errorf("{}: cannot be removed: {}; until it is, readers see it and not the new shards", single.string(),
                  error.message());
  return Status::ok();
}

Status Replacement::commit() {
  if (Status status = placeAll(); !status.isOk()) {
    undo();
    return status;
  }
  removeLinks();
  // Before the old files go, the new ones are there to stay.
  MGC_TRY(syncDirectoryOf(pathOf("")));
  for (const Step &step : steps_)
    old_.erase(step.name);
  MGC_TRY(removeSingleFile());
  remove(old_);
  return Status::ok();
}

} // namespace mgc
