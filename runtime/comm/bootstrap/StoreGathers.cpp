#include "runtime/comm/bootstrap/StoreGathers.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/Store.h"

#include <fmt/ranges.h>

namespace mgc {

Result<const std::vector<std::string> *> StoreGathers::add(const std::string &key,
                                                           const GatheredValue &value) {
  if (value.place < 0 || value.place >= value.places)
    return errorf("'{}': place {} of {}; expected one of them", printable(key), value.place, value.places);
  const auto bytes = static_cast<int64_t>(value.value.size());
  if (bytes_ + bytes > kMaxStoreBytes)
    return errorf("the store is full: '{}' would make it {} bytes, expected at most {}", printable(key),
                  bytes_ + bytes, kMaxStoreBytes);
  Gather &gather = gathers_[key];
  if (gather.values.empty()) {
    gather.values.resize(static_cast<size_t>(value.places));
    gather.areThere.resize(gather.values.size());
  }
  const auto place = static_cast<size_t>(value.place);
  if (static_cast<size_t>(value.places) != gather.values.size() || gather.areThere[place])
    return errorf("'{}': place {} of {} was given where there are {} and {}; expected each once",
                  printable(key), place, value.places, gather.values.size(),
                  gather.areThere[place] ? "it has its value" : "not so many");
  gather.values[place] = value.value;
  gather.areThere[place] = true;
  gather.bytes += bytes, bytes_ += bytes;
  const std::vector<std::string> *all = ++gather.come == value.places ? &gather.values : nullptr;
  return all;
}

void StoreGathers::forget(const std::string &key) {
  if (const auto found = gathers_.find(key); found != gathers_.end()) {
    bytes_ -= found->second.bytes;
    gathers_.erase(found);
  }
}

std::string StoreGathers::describeMissing(const std::string &key) const {
  std::vector<size_t> missing;
  if (const auto found = gathers_.find(key); found != gathers_.end())
    for (size_t place = 0; place < found->second.areThere.size(); ++place)
      if (!found->second.areThere[place])
        missing.push_back(place);
  return fmt::format("members [{}] to join {}", fmt::join(missing, ", "), printable(key));
}

} // namespace mgc
