// The choices of measurements, kept from one run to the next.
//   in:  a JSON file that anyone may have written, and that others may be writing
//   out: the choice of a key, and the file with what was added
//
//   {"format": "mgc products 1", HEADER.., "fastest": {KEY: CHOICE, ...}}
//
// A key has all that the choice was measured for, so the file may travel between machines.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mgc {

// FILE in $XDG_CACHE_HOME/mgc, else in ~/.cache/mgc; empty when the environment names neither.
std::string defaultCacheFile(const std::string &file);

// The format of one kind of cache.
struct ChoiceFormat {
  std::string name, version;                        // "mgc products", "1"
  std::string what;                                 // "a cache of products", for people
  nlohmann::json header = nlohmann::json::object(); // more fields of the file
  // Checks these fields; null: there are none.
  std::function<Status(const nlohmann::json &file)> check = nullptr;
  std::function<Status(const nlohmann::json &choice)> checkChoice;
};

class ChoiceCache {
public:
  // Without a path nothing is read and save() does nothing.
  ChoiceCache(ChoiceFormat format, std::string path) : format_(std::move(format)), path_(std::move(path)) {}

  // Reads the file; one that does not exist, or is empty, knows nothing. `notes` gets why nothing of a cache is used, or what
  // of it; one of another version stays as it is, without any save(). An error: the file is no cache, and not to be replaced.
  Status load(std::vector<std::string> &notes);
  // Adds what this one knows to the file, which has what others added meanwhile; makes its folder if it is missing.
  Status save() const;

  std::optional<nlohmann::json> find(const std::string &key) const;
  void add(const std::string &key, nlohmann::json choice) { choices_[key] = std::move(choice); }
  const std::string &path() const { return path_; }

private:
  using Choices = std::map<std::string, nlohmann::json>;
  struct Contents {
    Choices choices;
    std::string unused; // the unused part of the file, and why; else empty
    bool isOtherVersion = false;
  };
  Result<Contents> read() const;
  Result<nlohmann::json> parse(std::string_view text) const;
  Status checkFile(const nlohmann::json &file) const;
  Choices parseChoices(const nlohmann::json &file, std::string &problem) const;

  ChoiceFormat format_;
  std::string path_;
  Choices choices_;
};

} // namespace mgc
