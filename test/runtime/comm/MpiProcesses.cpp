// mpi/comm_test: ranks are the processes that an mpirun has started, and each looks at its own results. Without an mpirun it says
// so and ends well: unit/mpi_comm_test.
#include "runtime/comm/mpi/MpiWorld.h"
#include "test/runtime/comm/Backends.h"

#include <cstdio>
#include <gtest/gtest.h>

namespace mgc::test {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{60'000};

Launch launched;
std::unique_ptr<MpiProcess> mpi;

// One of a test: a store, processes that have joined it, and a world.
class MpiProcessesWorld final : public World {
public:
  explicit MpiProcessesWorld(milliseconds timeout) {
    if (const Status opened = open(timeout); !opened.isOk())
      ADD_FAILURE() << opened.message();
  }
  int64_t size() const override { return launched.size; }
  void run(const std::function<void(Communicator &)> &body) override {
    if (!world_)
      return;
    body(world_->communicator());
    (void)world_->close();               // the error is that of the body, where it has ended the world
    (void)processes_->end(Status::ok()); // others may still wait for this one's messages
  }

private:
  Status open(milliseconds timeout) {
    Launch launch = launched;
    launch.master = {};
    MGC_TRY(mpi->agreeOnStore(launch));
    MGC_SET(processes_, Processes::join(launch, {launch.size, 5, 0xabcd, {}}, kPatience));
    MGC_SET(world_, MpiWorld::open(*mpi, *processes_, timeout));
    return Status::ok();
  }
  std::unique_ptr<Processes> processes_;
  std::unique_ptr<MpiWorld> world_;
};

std::unique_ptr<World> makeMpiWorld(int64_t, milliseconds timeout) {
  return std::make_unique<MpiProcessesWorld>(timeout);
}

std::string lacksProcesses(int64_t ranks) {
  return ranks == launched.size ? "" : fmt::format("{} ranks, found {} processes", ranks, launched.size);
}

} // namespace

std::vector<Backend> backends() {
  return {{.name = "mpi", .make = makeMpiWorld, .lacks = lacksProcesses, .onlyRank = [] {
             return std::optional(launched.rank);
           }}};
}

static Status start() {
  MGC_SET(launched, launchOf({}));
  if (launched.mpi == MpiKind::none)
    return errorf("no mpirun has started this");
  MGC_SET(mpi, MpiProcess::start(launched, kPatience));
  return Status::ok();
}

} // namespace mgc::test

int main(int argc, char **argv) {
  using namespace mgc::test;
  testing::InitGoogleTest(&argc, argv);
  if (const mgc::Status started = start(); !started.isOk()) {
    std::fprintf(stderr, "%s\n", started.message().c_str());
    return launched.mpi == mgc::MpiKind::none ? 0 : 1;
  }
  const int code = RUN_ALL_TESTS();
  const mgc::Status left = mpi->leave(code == 0, code);
  return left.isOk() ? code : 1;
}
