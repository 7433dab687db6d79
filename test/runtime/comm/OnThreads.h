// Ranks as threads of a test.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace mgc::test {

// body(rank) on a thread for each rank, until all have ended.
inline void onThreads(int64_t ranks, const std::function<void(int64_t rank)> &body) {
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(rank); });
}

} // namespace mgc::test
