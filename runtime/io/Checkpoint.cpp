// Checkpoint of Safetensors.h: which files a path stands for, and tensors by name over all of them.
#include "runtime/base/Json.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <filesystem>

namespace mgc {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxIndexBytes = 100'000'000;

bool present(const fs::path &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The one file that a checkpoint begins with: weights, or the index of their files.
Result<fs::path> entryFile(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return fs::path(path);
  fs::path directory(path);
  for (const char *name : {"model.safetensors", "model.safetensors.index.json"})
    if (present(directory / name))
      return directory / name;
  bool pickled = present(directory / "pytorch_model.bin") || present(directory / "pytorch_model.bin.index.json");
  return errorf("{}: has neither model.safetensors nor model.safetensors.index.json{}", path,
                pickled ? "; it has pytorch_model.bin: save the model again with safe_serialization=True" : "");
}

} // namespace

Result<std::map<std::string, std::string>> readCheckpointIndex(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMaxIndexBytes));
  MGC_ASSIGN(index, parseJson(text).at(path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return errorf("{}: expected an object with an object \"weight_map\" from tensor to file name", path);
  std::map<std::string, std::string> files;
  for (const auto &[tensor, file] : index["weight_map"].items()) {
    if (!file.is_string())
      return errorf("{}: weight_map of \"{}\" is {}, expected a file name", path, printable(tensor), file.type_name());
    const std::string &name = file.get_ref<const std::string &>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
      return errorf("{}: weight_map of \"{}\" is \"{}\", expected the name of a file beside the index", path,
                    printable(tensor), printable(name));
    files[tensor] = name;
  }
  return files;
}

Result<Checkpoint> Checkpoint::open(const std::string &path) {
  MGC_ASSIGN(entry, entryFile(path));
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  if (entry.extension() != ".json") {
    MGC_ASSIGN(file, Safetensors::open(entry.string()));
    checkpoint.files_.push_back(std::move(file));
    for (const auto &[name, tensor] : checkpoint.files_[0].tensors())
      checkpoint.tensors_[name] = &tensor;
    return checkpoint;
  }
  MGC_ASSIGN(index, readCheckpointIndex(entry.string()));
  std::map<std::string, size_t> opened;
  for (const auto &[tensor, name] : index) {
    if (!opened.contains(name)) {
      MGC_ASSIGN(file, Safetensors::open((entry.parent_path() / name).string()));
      opened[name] = checkpoint.files_.size();
      checkpoint.files_.push_back(std::move(file));
    }
    const Safetensors &file = checkpoint.files_[opened[name]];
    const TensorView *view = file.find(tensor);
    if (!view)
      return errorf("{}: tensor \"{}\" is said to be in {}, but is not", entry.string(), printable(tensor), name);
    checkpoint.tensors_[tensor] = view;
  }
  return checkpoint;
}

bool Checkpoint::holdsGradients() const {
  return std::ranges::any_of(files_, [](const Safetensors &file) {
    const auto found = file.metadata().find(kContent);
    return found != file.metadata().end() && found->second == kGradients;
  });
}

const TensorView *Checkpoint::find(const std::string &name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto &entry : tensors_)
    names.push_back(entry.first);
  return names;
}

} // namespace mgc
