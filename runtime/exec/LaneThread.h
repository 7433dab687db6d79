// The thread of a stream parallel to that of a rank's runs, for devices whose streams work on the calling thread: it
// executes works of the rank's schedule in the order in which the rank's thread submits them.
#pragma once

#include "runtime/base/Status.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mgc {

struct LaneWork {
  int64_t run = -1;         // schedule index
  int64_t instruction = -1; // index in the chunk; -1: all of the run
};

class LaneThread {
public:
  struct Body {
    std::function<void()> prepare;              // first
    std::function<void(const LaneWork &)> work; // for each
    std::function<void()> done;                 // after each, when it isDone()
  };
  // `capacity`: works that wait at once. Objects that the body refers to outlive the thread, which calls it.
  static Result<std::unique_ptr<LaneThread>> start(int64_t capacity, Body body);
  ~LaneThread(); // when it has done all that it was given

  int64_t enqueue(const LaneWork &work); // its number; works count from 1
  bool isDone(int64_t number) const { return done_.load(std::memory_order_acquire) >= number; }
  void finish() const; // returns when all is done

private:
  LaneThread(int64_t capacity, Body body) : body_(std::move(body)), ring_(capacity) {}
  void main();

  const Body body_;
  std::vector<LaneWork> ring_;
  mutable std::mutex mutex_;
  mutable std::condition_variable enqueued_, allDone_;
  int64_t last_ = 0; // given
  std::atomic<int64_t> done_{0};
  bool isEnding_ = false;
  std::thread thread_;
};

} // namespace mgc
