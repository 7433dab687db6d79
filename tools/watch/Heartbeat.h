// Heartbeat: a call from time to time, on a thread of its own, while nothing else is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mgc::tools {

class Heartbeat {
public:
  using Clock = std::chrono::steady_clock;
  explicit Heartbeat(Clock::duration interval) : interval_(interval) {}
  ~Heartbeat(); // after a beat that runs

  // From now on beat() is called whenever the interval has passed since the last call or the last restart. Without a thread, which
  // the system may refuse, it is never called: a training goes on.
  void start(std::function<void()> beat);
  // While the caller has this lock, beat() does not run; beat() itself runs with it.
  std::unique_lock<std::mutex> quiet() { return std::unique_lock(mutex_); }
  // With the lock: something was told just now.
  void restart() { last_ = Clock::now(); }
  Clock::duration interval() const { return interval_; }

private:
  void run(const std::function<void()> &beat);

  const Clock::duration interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point last_ = Clock::now();
  bool isOver_ = false;
  std::thread thread_;
};

} // namespace mgc::tools
