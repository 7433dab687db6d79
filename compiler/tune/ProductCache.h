// Remembers the fastest path of a matrix product from one compilation to the next (ChoiceCache.h).
//
//   {"format": "mgc products 2", "paths": ["whole", ...],
//    "fastest": {"AMD EPYC, oneDNN 2.6.3, 2 threads, 1024x768x768 NN": "rows", ...}}
//
// `paths` are those that were compared: a program that knows others measures again.
#pragma once

#include "plan/Plan.h"
#include "runtime/io/ChoiceCache.h"

namespace mgc::tune {

inline std::string defaultCachePath() { return defaultCacheFile("products.json"); }

ChoiceFormat productFormat();

class ProductCache {
public:
  // See ChoiceCache.
  explicit ProductCache(std::string path = {}) : cache_(productFormat(), std::move(path)) {}
  Status load(std::vector<std::string> &notes) { return cache_.load(notes); }
  Status save() const { return cache_.save(); }

  std::optional<plan::GemmPath> find(const std::string &key) const;
  void add(const std::string &key, plan::GemmPath path);

private:
  ChoiceCache cache_;
};

} // namespace mgc::tune
