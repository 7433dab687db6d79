#include "runtime/exec/RankThreads.h"

#include <system_error>

namespace mgc {

Status RankThreads::start(int64_t threads, std::function<void(int64_t)> prepare) {
  prepare_ = std::move(prepare);
  for (int64_t i = 0; i < threads; ++i)
    try {
      threads_.emplace_back([this, i] { main(i); });
    } catch (const std::system_error &error) {
      return errorf("rank {} of {}: its thread does not start: {}; fewer ranks or a higher limit of processes "
                    "(ulimit -u) would work",
                    i, threads, error.what());
    }
  return Status::ok();
}

RankThreads::~RankThreads() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  orderGiven_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void RankThreads::main(int64_t number) {
  prepare_(number);
  for (uint64_t seen = 0;; ++seen) {
    {
      std::unique_lock lock(mutex_);
      orderGiven_.wait(lock, [&] { return orders_ != seen || ending_; });
      if (ending_)
        return;
    }
    (*work_)(number);
    std::lock_guard lock(mutex_);
    if (--busy_ == 0)
      allDone_.notify_one();
  }
}

void RankThreads::begin(const std::function<void(int64_t)> &work) {
  std::lock_guard lock(mutex_);
  work_ = &work;
  ++orders_;
  busy_ = static_cast<int64_t>(threads_.size());
  orderGiven_.notify_all();
}

void RankThreads::end() {
  std::unique_lock lock(mutex_);
  allDone_.wait(lock, [&] { return busy_ == 0; });
}

} // namespace mgc
