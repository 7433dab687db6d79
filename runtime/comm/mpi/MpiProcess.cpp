// See MpiProcess.h.
#include "runtime/comm/mpi/MpiProcess.h"

#include "runtime/comm/bootstrap/StoreServer.h"
#include "runtime/comm/tcp/Connection.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace mgc {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// The thread that starts MPI and, as it must be, stops it; and that makes the other calls that wait for ranks. The
// caller of such a call waits for it no longer than to a deadline; then the thread is abandoned.
class MpiThread {
public:
  MpiThread() : shared_(std::make_shared<Shared>()) {
    std::thread([shared = shared_] { serve(*shared); }).detach();
  }
  ~MpiThread() {
    const std::lock_guard lock(shared_->mutex);
    shared_->isEnding = true;
    shared_->changed.notify_all();
  }
  // `call` keeps what it needs: it may outlive the caller.
  Status run(std::function<Status()> call, std::chrono::milliseconds most, std::string_view what) {
    std::unique_lock lock(shared_->mutex);
    shared_->call = std::move(call);
    shared_->result.reset();
    shared_->changed.notify_all();
    if (shared_->changed.wait_for(lock, most, [&] { return shared_->result.has_value(); }))
      return *shared_->result;
    return errorf("waited {} s for the other processes in {}", std::chrono::duration<double>(most).count(), what);
  }

private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<Status()> call;
    std::optional<Status> result;
    bool isEnding = false;
  };

  static void serve(Shared &shared) {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.changed.wait(lock, [&] { return shared.isEnding || shared.call; });
      if (!shared.call)
        return;
      const std::function<Status()> call = std::exchange(shared.call, nullptr);
      lock.unlock();
      Status result = call();
      lock.lock();
      shared.result = std::move(result);
      shared.changed.notify_all();
    }
  }

  const std::shared_ptr<Shared> shared_;
};

namespace {

constexpr auto kLastWords = 1s;
constexpr auto kAbandonment = 5s;
constexpr int64_t kMostBytes = 1024; // size of the message that says where the store is
constexpr int32_t kStoreTag = 0;

} // namespace

MpiProcess::MpiProcess(const MpiTable &table, std::chrono::milliseconds timeout)
    : table_(table), timeout_(timeout), thread_(std::make_unique<MpiThread>()) {}

MpiProcess::~MpiProcess() = default;

Result<std::unique_ptr<MpiProcess>> MpiProcess::start(Launch &launch, std::chrono::milliseconds timeout,
                                                      const std::string &plugin) {
  MGC_ASSIGN(table, openMpi(launch.mpi, plugin));
  std::unique_ptr<MpiProcess> process(new MpiProcess(*table, timeout));
  const auto facts = std::make_shared<mgc_mpi_facts>();
  const auto startMpi = [table, facts] { return mpiCall<&MpiTable::start>(*table, facts.get()); };
  MGC_TRY(process->thread_->run(startMpi, timeout, "the start of MPI").at(fmt::format("rank {}", launch.rank)));
  process->facts_ = *facts;
  MGC_TRY(process->verify(launch));
  MGC_SET(process->all_, process->openWorld());
  MGC_TRY(process->agreeOnStore(launch).at(fmt::format("rank {} of {} processes", launch.rank, launch.size)));
  return process;
}

// A library that the launcher does not know starts each process as a world of its own.
Status MpiProcess::verify(const Launch &launch) const {
  if ((std::string_view(facts_.version.text).find(nameOf(MpiKind::openMpi)) == 0) != (launch.mpi == MpiKind::openMpi))
    return errorf("{} was found where the plugin for {} was opened; expected the libraries that it was built with",
                  facts_.version.text, table_.kind);
  if (facts_.rank == launch.rank && facts_.ranks == launch.size)
    return Status::ok();
  return errorf("{} counts this process as rank {} of {}, the launcher as rank {} of {} ({}); expected the same: the "
                "mpirun of this {}, srun --mpi={}, and neither --rank nor --world-size",
                facts_.version.text, facts_.rank, facts_.ranks, launch.rank, launch.size, launch.by, table_.kind,
                launch.mpi == MpiKind::openMpi ? "pmix" : "pmi2");
}

Result<mgc_mpi_world *> MpiProcess::openWorld() {
  const auto world = std::make_shared<mgc_mpi_world *>(nullptr);
  const auto open = [table = &table_, world] { return mpiCall<&MpiTable::open_world>(*table, world.get()); };
  MGC_TRY(thread_->run(open, timeout_, "the opening of a world of MPI").at(fmt::format("rank {}", facts_.rank)));
  return *world;
}

Status MpiProcess::exchange(bool isSend, int64_t rank, int32_t tag, void *data, int64_t bytes) {
  const mgc_mpi_region region{data, 1, bytes, bytes};
  if (!isSend)
    return mpiCall<&MpiTable::receive>(table_, all_, &region, rank, tag, uint64_t(0));
  return mpiCall<&MpiTable::send>(table_, all_, &region, rank, tag, uint64_t(0), static_cast<int32_t *>(nullptr));
}

Status MpiProcess::complete(int64_t count, std::chrono::milliseconds most) {
  const auto deadline = Clock::now() + most;
  while (true) {
    const mgc_mpi_completion *completions = nullptr;
    int64_t done = 0;
    MGC_TRY(mpiCall<&MpiTable::poll>(table_, all_, &completions, &done));
    count -= done;
    if (count <= 0)
      return Status::ok();
    if (Clock::now() > deadline)
      return errorf("waited {} s for {} messages of other processes", std::chrono::duration<double>(most).count(),
                    count);
    std::this_thread::sleep_for(200us);
  }
}

// Rank 0 listens, and says where. By loopback where all are on one machine and no address was requested.
Status MpiProcess::agreeOnStore(Launch &launch) {
  store_.assign(kMostBytes, '\0');
  if (launch.rank != 0) {
    MGC_TRY(exchange(false, 0, kStoreTag, store_.data(), kMostBytes));
    MGC_TRY(complete(1, timeout_));
    const Message message{0, store_};
    MessageReader reader(message);
    launch.master.port = reader.number();
    launch.master.host = reader.text();
    return Status::ok();
  }
  std::string &host = launch.master.host;
  if (host.empty())
    host = facts_.local_ranks == facts_.ranks ? "127.0.0.1" : hostName();
  MGC_ASSIGN(listening, listenForStore({isLoopbackEverywhere(host) ? host : "", launch.master.port}));
  launch.master.port = portOf(listening);
  launch.listening = std::make_shared<Descriptor>(std::move(listening));
  store_ = Message().with(launch.master.port).with(host).body;
  store_.resize(kMostBytes);
  for (int64_t rank = 1; rank < facts_.ranks; ++rank)
    MGC_TRY(exchange(true, rank, kStoreTag, store_.data(), kMostBytes));
  return complete(facts_.ranks - 1, timeout_);
}

Status MpiProcess::leave(bool isWell, int code) {
  if (isWell)
    return thread_->run([table = &table_] { return mpiCall<&MpiTable::stop>(*table); }, timeout_,
                        "MPI_Finalize; all have finished their steps before, and saved");
  std::this_thread::sleep_for(kLastWords);
  std::fflush(nullptr);
  try {
    std::thread([code] {
      std::this_thread::sleep_for(kAbandonment);
      ::_exit(code);
    }).detach();
  } catch (const std::system_error &) { // no thread more
    ::alarm(kAbandonment.count());      // the signal ends the process, with a code of its own
  }
  table_.abandon(code);
  return Status::ok();
}

} // namespace mgc
