#include "runtime/exec/LaneThread.h"

#include <system_error>

namespace mgc {

Result<std::unique_ptr<LaneThread>> LaneThread::start(int64_t capacity, Body body) {
  std::unique_ptr<LaneThread> lane(new LaneThread(capacity, std::move(body)));
  try {
    lane->thread_ = std::thread([raw = lane.get()] { raw->main(); });
  } catch (const std::system_error &error) {
    return errorf("a thread that works beside it does not start: {}; fewer ranks, or a higher limit of processes "
                  "(ulimit -u) or of address space (ulimit -v), would work",
                  error.what());
  }
  return lane;
}

LaneThread::~LaneThread() {
  {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  enqueued_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

int64_t LaneThread::enqueue(const LaneWork &work) {
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    ring_[static_cast<size_t>(last_) % ring_.size()] = work;
    number = ++last_;
  }
  enqueued_.notify_one();
  return number;
}

void LaneThread::main() {
  body_.prepare();
  for (int64_t number = 1;; ++number) {
    LaneWork work;
    {
      std::unique_lock lock(mutex_);
      enqueued_.wait(lock, [&] { return last_ >= number || isEnding_; });
      if (last_ < number)
        return;
      work = ring_[static_cast<size_t>(number - 1) % ring_.size()];
    }
    body_.work(work);
    {
      const std::lock_guard lock(mutex_);
      done_.store(number, std::memory_order_release);
      if (number == last_)
        allDone_.notify_all();
    }
    body_.done();
  }
}

void LaneThread::finish() const {
  std::unique_lock lock(mutex_);
  allDone_.wait(lock, [&] { return done_.load(std::memory_order_relaxed) == last_; });
}

} // namespace mgc
