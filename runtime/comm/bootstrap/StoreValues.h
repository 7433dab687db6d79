// StoreValues: the keys and values of a store, bounded in bytes.
#pragma once

#include "runtime/base/Status.h"

#include <map>
#include <string>

namespace mgc {

class StoreValues {
public:
  // Fails where all would be more than kMaxStoreBytes.
  Status set(const std::string &key, const std::string &value);
  // The number at the key, 0 where there is none, and delta; wraps around beyond 64 bits.
  Result<std::string> add(const std::string &key, int64_t delta);
  void forget(const std::string &beginning); // all keys that begin so
  // Null where nobody has set it.
  const std::string *find(const std::string &key) const;

private:
  std::map<std::string, std::string> values_;
  int64_t bytes_ = 0;
};

} // namespace mgc
