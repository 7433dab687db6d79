// StoreGathers: values that processes lay down together, each at its place, until all are there.
#pragma once

#include "runtime/base/Status.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mgc {

struct GatheredValue {
  int64_t place = 0, places = 1;
  std::string value;
};

class StoreGathers {
public:
  // The values of all places once this was the last one; null before. Fails where the place is none, or has its value, or where all
  // that is kept would be more than kMaxStoreBytes.
  Result<const std::vector<std::string> *> add(const std::string &key, const GatheredValue &value);
  void forget(const std::string &key);
  std::string describeMissing(const std::string &key) const; // "members [1, 3] to join KEY"

private:
  struct Gather {
    std::vector<std::string> values;
    std::vector<bool> areThere;
    int64_t come = 0, bytes = 0;
  };
  std::map<std::string, Gather> gathers_;
  int64_t bytes_ = 0;
};

} // namespace mgc
