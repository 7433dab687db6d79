// One persistent thread per rank of this process; between steps they sleep.
#pragma once

#include "runtime/base/Status.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mgc {

class RankThreads {
public:
  ~RankThreads();
  // Each thread calls prepare(number) first; it and what is given to begin() outlive what is done with them.
  Status start(int64_t threads, std::function<void(int64_t)> prepare);
  // Calls work(number) on each thread; end() returns when all are done.
  void begin(const std::function<void(int64_t)> &work);
  void end();
  void run(const std::function<void(int64_t)> &work) {
    begin(work);
    end();
  }

private:
  void main(int64_t number);
  std::function<void(int64_t)> prepare_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable orderGiven_, allDone_;
  const std::function<void(int64_t)> *work_ = nullptr;
  uint64_t orders_ = 0; // works given so far
  int64_t busy_ = 0;    // threads that have not finished the last one
  bool ending_ = false;
};

} // namespace mgc
