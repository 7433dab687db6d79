// A store on a port that is free, and processes that join it: threads of the test stand for them.
#pragma once

#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/comm/bootstrap/StoreServer.h"
#include "test/runtime/comm/OnThreads.h"

#include <gtest/gtest.h>

namespace mgc::test {

class StoreOfTest {
public:
  explicit StoreOfTest(int64_t ranks, std::chrono::milliseconds timeout = std::chrono::milliseconds(60'000),
                       std::chrono::milliseconds stragglers = std::chrono::milliseconds(200))
      : timeout_(timeout), run_{ranks, 5, 0xabcd, {"--seed = 1", "--lr = 0.5"}} {
    Result<std::unique_ptr<StoreServer>> server =
        StoreServer::start({"127.0.0.1", 0}, {0, "the test", run_}, {}, stragglers);
    EXPECT_TRUE(server.isOk()) << server.status().message();
    server_ = server.take();
  }
  Endpoint endpoint() const { return {"127.0.0.1", server_->port()}; }
  const RunIdentity &run() const { return run_; }
  void stop() { server_.reset(); }

  Result<std::unique_ptr<Processes>> tryJoin(int64_t rank, const RunIdentity &run) const {
    Launch launch;
    launch.rank = rank;
    launch.size = run.processes;
    launch.master = endpoint();
    return Processes::join(launch, run, timeout_, Processes::StoreOwner::launcher);
  }
  // Null after an error, which fails the test.
  std::unique_ptr<Processes> join(int64_t rank) const {
    Result<std::unique_ptr<Processes>> processes = tryJoin(rank, run_);
    EXPECT_TRUE(processes.isOk()) << processes.status().message();
    return processes.isOk() ? processes.take() : nullptr;
  }

private:
  const std::chrono::milliseconds timeout_;
  const RunIdentity run_;
  std::unique_ptr<StoreServer> server_;
};

// A store, and processes of all its ranks.
struct JoinedRun {
  explicit JoinedRun(int64_t ranks) : store(ranks), processes(ranks) {
    onThreads(ranks, [&](int64_t rank) { processes[rank] = store.join(rank); });
  }
  Processes &operator[](int64_t rank) const { return *processes[rank]; }
  Store &storeOf(int64_t rank) const { return processes[rank]->store(); }

  StoreOfTest store;
  std::vector<std::unique_ptr<Processes>> processes;
};

inline Status share(Store &store, const std::string &key, const std::string &value) {
  return store
      .share(
          key, true, [&]() -> Result<std::string> { return value; },
          std::chrono::steady_clock::now() + std::chrono::seconds(30))
      .status();
}

} // namespace mgc::test
