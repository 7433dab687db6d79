// ThreadWorld: a world whose ranks are threads of this process. Data moves straight between the ranks'
// buffers, with no staging copy. Waiting threads sleep: any number of ranks runs on any number of cores.
#pragma once

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <memory>

namespace mgc {

struct ThreadWorldOptions {
  std::chrono::milliseconds timeout{600'000}; // limit of each wait
};

class ThreadWorld {
public:
  explicit ThreadWorld(int64_t ranks, const ThreadWorldOptions &options = {});
  ~ThreadWorld(); // after the last use of the communicators
  int64_t size() const;
  Communicator &communicator(int64_t rank);

private:
  struct Ranks;
  std::unique_ptr<Ranks> ranks_;
};

} // namespace mgc
