#include "test/runtime/comm/Backends.h"

#include "runtime/comm/process/SocketWorld.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "test/runtime/comm/StoreOfTest.h"

#include <thread>

namespace mgc::test {

namespace {

using std::chrono::milliseconds;

void onThreads(int64_t ranks, const std::function<void(int64_t rank)> &body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

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

class SocketedWorld final : public World {
public:
  SocketedWorld(int64_t ranks, milliseconds timeout) : store_(ranks), processes_(ranks), worlds_(ranks) {
    onThreads(ranks, [&](int64_t rank) {
      processes_[rank] = store_.join(rank);
      if (!processes_[rank])
        return;
      Result<std::unique_ptr<SocketWorld>> world = SocketWorld::connect(*processes_[rank], {timeout});
      EXPECT_TRUE(world.isOk()) << world.status().message();
      if (world.isOk())
        worlds_[rank] = world.take();
    });
  }
  int64_t size() const override { return static_cast<int64_t>(worlds_.size()); }
  void run(const std::function<void(Communicator &)> &body) override {
    onThreads(size(), [&](int64_t rank) {
      if (worlds_[rank])
        body(worlds_[rank]->communicator());
    });
  }

private:
  StoreOfTest store_;
  std::vector<std::unique_ptr<Processes>> processes_;
  std::vector<std::unique_ptr<SocketWorld>> worlds_;
};

} // namespace

std::unique_ptr<World> makeThreadedWorld(int64_t ranks, milliseconds timeout) {
  return std::make_unique<ThreadedWorld>(ranks, timeout);
}

std::unique_ptr<World> makeSocketedWorld(int64_t ranks, milliseconds timeout) {
  return std::make_unique<SocketedWorld>(ranks, timeout);
}

} // namespace mgc::test
