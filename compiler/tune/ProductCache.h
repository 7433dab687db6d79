// Which path was the fastest for a product, kept from one compilation to the next.
//   in:  a JSON file that anyone may have written
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

namespace mgc::tune {

// $XDG_CACHE_HOME, else ~/.cache, and there mgc/products.json; empty when the environment names neither.
std::string defaultCachePath();

class ProductCache {
public:
  // Without a path nothing is read and save() does nothing.
  explicit ProductCache(std::string path = {}) : path_(std::move(path)) {}

  // Reads the file; one that does not exist is empty. An error says why nothing of it is used.
  Status load();
  // Replaces the file, making its folder if it is missing.
  Status save() const;

  std::optional<plan::GemmPath> find(const std::string &key) const;
  void add(const std::string &key, plan::GemmPath path) { fastest_[key] = path; }

private:
  std::string path_;
  std::map<std::string, plan::GemmPath> fastest_;
};

} // namespace mgc::tune
