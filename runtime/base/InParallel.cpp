#include "runtime/base/InParallel.h"

#include "runtime/base/Cores.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace mgc {

void forEachInParallel(int64_t count, const std::function<void(int64_t)> &body, int64_t mostThreads) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++)
      body(i);
  };
  std::vector<std::jthread> helpers;
  const int64_t threads = std::min({count, mostThreads, std::ssize(availableCores())});
  try {
    for (int64_t i = 1; i < threads; ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) { // the system has no more
  }
  work();
}

} // namespace mgc
