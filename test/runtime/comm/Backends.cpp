#include "test/runtime/comm/Backends.h"

#include "runtime/comm/thread/ThreadWorld.h"
#include "test/runtime/comm/OnThreads.h"

namespace mgc::test {

namespace {

using std::chrono::milliseconds;

class ThreadedWorld final : public World {
public:
  ThreadedWorld(int64_t ranks, milliseconds timeout) : world_(ranks, {.timeout = timeout}) {}
  int64_t size() const override { return world_.size(); }
  void run(const std::function<void(Communicator &)> &body) override {
    onThreads(size(), [&](int64_t rank) { body(world_.communicator(rank)); });
  }

private:
  ThreadWorld world_;
};

} // namespace

std::unique_ptr<World> makeThreadedWorld(int64_t ranks, milliseconds timeout) {
  return std::make_unique<ThreadedWorld>(ranks, timeout);
}

} // namespace mgc::test
