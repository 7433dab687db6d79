#include "runtime/comm/bootstrap/StoreValues.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/Store.h"

#include <cstdlib>

namespace mgc {

Status StoreValues::set(const std::string &key, const std::string &value) {
  const std::string *old = find(key);
  const size_t before = old ? key.size() + old->size() : 0;
  const int64_t bytes =
      bytes_ - static_cast<int64_t>(before) + static_cast<int64_t>(key.size() + value.size());
  if (bytes > kMaxStoreBytes)
    return errorf("the store is full: '{}' would make it {} bytes, expected at most {}", printable(key),
                  bytes, kMaxStoreBytes);
  bytes_ = bytes;
  values_[key] = value;
  return Status::ok();
}

Result<std::string> StoreValues::add(const std::string &key, int64_t delta) {
  const std::string *old = find(key);
  const uint64_t before = old ? static_cast<uint64_t>(std::atoll(old->c_str())) : 0;
  const std::string sum = std::to_string(static_cast<int64_t>(before + static_cast<uint64_t>(delta)));
  MGC_TRY(set(key, sum));
  return sum;
}

void StoreValues::forget(const std::string &beginning) {
  for (auto it = values_.lower_bound(beginning); it != values_.end() && it->first.starts_with(beginning);
       it = values_.erase(it))
    bytes_ -= static_cast<int64_t>(it->first.size() + it->second.size());
}

const std::string *StoreValues::find(const std::string &key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

} // namespace mgc
