// Work for a fixed number of threads, whose results come out in the order in which the work went in.
#pragma once

#include "runtime/base/Status.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace mgc {

template <typename Work, typename Out> class WorkerQueue {
public:
  using Function = std::function<Result<Out>(const Work &work)>;
  // `makeFunction` is called by each thread, once.
  WorkerQueue(int threads, const std::function<Function()> &makeFunction)
      : most_(static_cast<size_t>(2 * threads + 1)) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, makeFunction] { run(makeFunction()); });
  }
  ~WorkerQueue() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread &thread : threads_)
      thread.join();
  }
  WorkerQueue(const WorkerQueue &) = delete;
  WorkerQueue &operator=(const WorkerQueue &) = delete;

  bool hasRoom() const { return jobs_.size() < most_; } // only the thread that pushes and pops changes this
  void push(Work work) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::make_shared<Job>(Job{std::move(work), std::nullopt}));
      waiting_.push_back(jobs_.back());
    }
    changed_.notify_all();
  }
  // The result of the oldest work; waits for it. There is some: asserted.
  Result<Out> pop() {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Job> job = jobs_.front();
    changed_.wait(lock, [&] { return job->out.has_value(); });
    jobs_.pop_front();
    return std::move(*job->out);
  }

private:
  struct Job {
    Work work;
    std::optional<Result<Out>> out;
  };
  void run(const Function &function) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_)
        return;
      const std::shared_ptr<Job> job = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      Result<Out> out = function(job->work);
      lock.lock();
      job->out.emplace(std::move(out));
      changed_.notify_all();
    }
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_,
      waiting_; // all that were not popped; those that no thread has begun
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

} // namespace mgc
