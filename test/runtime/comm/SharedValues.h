// Values that the processes of a run tell each other once, where threads stand for processes: replaces their store.
#pragma once

#include "runtime/comm/nccl/NcclRank.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace mgc::test {

class SharedValues {
public:
  Share share() {
    return [this](const auto &key, bool isMaker, const auto &make) { return valueOf(key, isMaker, make); };
  }

private:
  Result<std::string> valueOf(const std::string &key, bool isMaker, const std::function<Result<std::string>()> &make) {
    std::unique_lock lock(mutex_);
    if (isMaker) {
      MGC_ASSIGN(made, make());
      values_[key] = made;
      given_.notify_all();
      return made;
    }
    given_.wait(lock, [&] { return values_.contains(key); });
    return values_[key];
  }
  std::mutex mutex_;
  std::condition_variable given_;
  std::map<std::string, std::string> values_;
};

} // namespace mgc::test
