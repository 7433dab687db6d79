// Which path was the fastest for a product, kept from one compilation to the next.
//   in:  a JSON file that anyone may have written, and that others may be writing
//   out: the path of a key, and the file with what was added
//
//   {"format": "mgc products 1", "paths": ["whole", ...],
//    "fastest": {"AMD EPYC, oneDNN 2.6.3, 2 threads, 1024x768x768 NN": "rows", ...}}
//
// A key has all that the choice was measured for, so the file may travel between machines. `paths` are those that were
// compared: a program that knows others measures again.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mgc::tune {

// $XDG_CACHE_HOME, else ~/.cache, and there mgc/products.json; empty when the environment names neither.
std::string defaultCachePath();

class ProductCache {
public:
  // Without a path nothing is read and save() does nothing.
  explicit ProductCache(std::string path = {}) : path_(std::move(path)) {}

  // Reads the file; one that does not exist, or is empty, knows nothing. `notes` gets why nothing of a cache is used;
  // one of another version stays as it is, without any save(). An error: the file is no cache, and not to be replaced.
  Status load(std::vector<std::string> &notes);
  // Adds what this one knows to the file, which has what others added meanwhile; makes its folder if it is missing.
  Status save() const;

  std::optional<plan::GemmPath> find(const std::string &key) const;
  void add(const std::string &key, plan::GemmPath path) { fastest_[key] = path; }

private:
  struct Contents {
    std::map<std::string, plan::GemmPath> fastest;
    std::string unused; // why `fastest` is empty, else empty
    bool isOtherVersion = false;
  };
  Result<Contents> read() const;

  std::string path_;
  std::map<std::string, plan::GemmPath> fastest_;
};

} // namespace mgc::tune
