// Replacing the checkpoint in a directory by a new one, whole or not at all.
// In: files written completely under temporary names. Out: all of them in place, what they replace removed.
#pragma once

#include "runtime/io/Safetensors.h"

#include <filesystem>
#include <functional>
#include <map>
#include <set>

namespace mgc {

// Makes the directory if missing.
Status makeDirectory(const std::string &directory);

// Names for the files of a checkpoint of `count`: "model.safetensors", or shards that no file in the
// directory is named like: the old checkpoint then stays whole until the new index replaces the old one.
// Readers take the names of shards from the index.
std::vector<std::string> weightFileNames(const std::filesystem::path &directory, size_t count);

// The weight files of the checkpoint in the directory, an index included: what a save removes when its own are in place.
std::set<std::string> checkpointFiles(const std::filesystem::path &directory);

class Replacement {
public:
  explicit Replacement(const std::string &directory);
  std::string pathOf(const std::string &name) const { return (directory_ / name).string(); }

  void add(const std::string &name, SafetensorsWriter writer);
  Status addText(const std::string &name, std::string_view text);

  // Puts the files in place in the order they were added. The last one must be the one that makes readers see
  // the new checkpoint. If that does not come about, new names are taken away again, files that were replaced
  // come back (where the file system has hard links), and the old checkpoint is what it was.
  Status commit();

private:
  struct Step {
    std::string name;
    std::function<Status()> place;
  };
  Status placeAll();
  Status place(const Step &step);
  void undo();
  void removeLinks();
  Status removeSingleFile();
  void remove(const std::set<std::string> &names);
  std::filesystem::path directory_;
  std::set<std::string> old_;               // weight files of the checkpoint before
  std::set<std::string> added_;             // names put in place that were free
  std::map<std::string, std::string> kept_; // names put in place that were not, and links to what they replaced
  std::vector<Step> steps_;
};

} // namespace mgc
