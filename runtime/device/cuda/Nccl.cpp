// Communicators of NCCL: one process a rank. They do not block, so that what the host waits for has a deadline and abort ends it:
// every call may answer that it is in progress, and settle() asks until it is done.
//
// abort may come from any thread and frees the communicators: mutexes keep it out of calls, and those after it are refused. It
// alone blocks, until the kernels of a communicator have ended and no graph has them any more.
#include "runtime/device/cuda/Nccl.h"

#include "runtime/device/cuda/Internal.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <span>
#include <thread>
#include <utility>

struct mgc_comm {
  mgc_device *device;
  const mgc::cuda::Nccl *nccl;
  int64_t ranks, rank;
  mgc_patience patience;
  std::string name;   // "NCCL communicator of 8, rank 3", for messages
  std::mutex mutex{}; // guards the members below
  ncclComm_t handle = nullptr;
  bool isAborted = false;
};

namespace mgc::cuda {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLeastGroupedAborts = NCCL_VERSION(2, 22, 0); // before it, an abort in a group blocks as one alone does
constexpr std::chrono::seconds kAbortDeadline{5};

// The communicators used since begin_group, by the thread that began it. Their mutexes are held until its end: an abort frees what
// the end works on.
struct NcclGroup {
  bool isOpen = false;
  std::vector<mgc_comm *> members;
  std::vector<std::unique_lock<std::mutex>> locks;
};
thread_local NcclGroup group;

Status ncclError(const mgc_comm &comm, ncclResult_t result, std::string_view what) {
  const char *last = comm.nccl->ncclGetLastError(comm.handle);
  return errorf("{}: {}: {}: {}{}{}", comm.device->name, comm.name, what, comm.nccl->ncclGetErrorString(result),
                last && *last ? ": " : "", last ? last : "");
}

// One query, with the mutex: the current operation is done, in progress, or has failed.
Result<bool> hasSettled(mgc_comm &comm, std::string_view what) {
  std::lock_guard lock(comm.mutex);
  if (comm.isAborted)
    return errorf("{}: {}: {}: aborted", comm.device->name, comm.name, what);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = comm.nccl->ncclCommGetAsyncError(comm.handle, &state);
  if (result != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
    return ncclError(comm, result != ncclSuccess ? result : state, what);
  return state == ncclSuccess;
}

// Waits for what an earlier call began.
Status settle(mgc_comm &comm, std::string_view what) {
  const mgc_patience &patience = comm.patience;
  const auto deadline = Clock::now() + std::chrono::milliseconds(patience.timeout_ms);
  while (true) {
    MGC_ASSIGN(done, hasSettled(comm, what));
    if (done)
      return Status::ok();
    if (Clock::now() > deadline)
      return errorf("{}: {}: {}: the others have not come within {} ms; see whether all ranks run, and reach "
                    "each other",
                    comm.device->name, comm.name, what, patience.timeout_ms);
    if (patience.has_ended && patience.has_ended(patience.context))
      return errorf("{}: {}: {}: the others will not come", comm.device->name, comm.name, what);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// `body`, a call of the library, and what it begins. In a group the end of the group waits.
template <typename Body> Status enqueue(mgc_stream &stream, mgc_comm &comm, std::string_view what, const Body &body) {
  MGC_TRY(stream.device->enter());
  const bool isMember = std::ranges::find(group.members, &comm) != group.members.end();
  std::unique_lock lock(comm.mutex, std::defer_lock);
  if (!isMember)
    lock.lock();
  if (comm.isAborted)
    return errorf("{}: {}: {}: aborted", comm.device->name, comm.name, what);
  const ncclResult_t result = body(*comm.nccl);
  if (result != ncclSuccess && result != ncclInProgress)
    return ncclError(comm, result, what);
  if (!group.isOpen) {
    lock.unlock();
    return settle(comm, what);
  }
  if (!isMember) {
    group.members.push_back(&comm);
    group.locks.push_back(std::move(lock));
  }
  return Status::ok();
}

Status finalize(mgc_comm &comm) {
  {
    std::lock_guard lock(comm.mutex);
    if (comm.isAborted)
      return errorf("{}: {}: aborted", comm.device->name, comm.name);
    const ncclResult_t result = comm.nccl->ncclCommFinalize(comm.handle);
    if (result != ncclSuccess && result != ncclInProgress)
      return ncclError(comm, result, "leaving it");
  }
  return settle(comm, "leaving it");
}

void abortAndDelete(mgc_comm *comm) {
  abortComms(&comm, 1);
  delete comm;
}

// All of them at once: one blocks while a graph has it that waits for another.
void abortAll(const Nccl &nccl, mgc_device *device, const std::vector<ncclComm_t> &handles) {
  const bool isGrouped = nccl.version >= kLeastGroupedAborts;
  std::vector<std::jthread> threads;
  if (isGrouped)
    nccl.ncclGroupStart();
  for (ncclComm_t handle : handles)
    if (isGrouped)
      nccl.ncclCommAbort(handle);
    else
      threads.emplace_back([&nccl, device, handle] {
        device->driver->cuCtxSetCurrent(device->context);
        nccl.ncclCommAbort(handle);
      });
  if (isGrouped)
    nccl.ncclGroupEnd();
}

ncclDataType_t typeOf(mgc_type type) {
  return type == MGC_BF16 ? ncclBfloat16 : type == MGC_I32 ? ncclInt32 : ncclFloat32;
}
ncclRedOp_t reductionOf(mgc_reduce reduce) { return reduce == MGC_MAX ? ncclMax : ncclSum; }
const void *source(mgc_address address) { return reinterpret_cast<const void *>(address); }
void *target(mgc_address address) { return reinterpret_cast<void *>(address); }

} // namespace

// In a thread of its own, which may outlast the communicators.
void abortComms(mgc_comm *const *comms, int64_t count) {
  std::vector<ncclComm_t> handles;
  for (mgc_comm *comm : std::span(comms, size_t(count))) {
    std::lock_guard lock(comm->mutex);
    if (!comm->isAborted && comm->handle)
      handles.push_back(comm->handle);
    comm->isAborted = true;
  }
  if (handles.empty())
    return;
  std::packaged_task<void()> work([device = comms[0]->device, nccl = comms[0]->nccl, handles] {
    device->driver->cuCtxSetCurrent(device->context);
    abortAll(*nccl, device, handles);
  });
  std::future<void> ended = work.get_future();
  std::thread(std::move(work)).detach();
  ended.wait_for(kAbortDeadline);
}

Status makeCommId(mgc_device *device, mgc_comm_id *id) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(nccl, Nccl::get());
  static_assert(sizeof(ncclUniqueId) == sizeof(mgc_comm_id));
  if (const ncclResult_t result = nccl->ncclGetUniqueId(reinterpret_cast<ncclUniqueId *>(id)); result != ncclSuccess)
    return errorf("{}: making an identity of an NCCL communicator: {}: {}", device->name,
                  nccl->ncclGetErrorString(result), nccl->ncclGetLastError(nullptr));
  return Status::ok();
}

Status makeComm(mgc_device *device, const mgc_comm_id *id, int64_t ranks, int64_t rank, const mgc_patience *patience,
                mgc_comm **comm) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(nccl, Nccl::get());
  std::unique_ptr<mgc_comm, void (*)(mgc_comm *)> made(
      new mgc_comm{device, nccl, ranks, rank, *patience, fmt::format("NCCL communicator of {}, rank {}", ranks, rank)},
      abortAndDelete);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId unique;
  std::copy_n(id->bytes, sizeof unique, reinterpret_cast<char *>(&unique));
  const ncclResult_t result = nccl->ncclCommInitRankConfig(&made->handle, int(ranks), unique, int(rank), &config);
  if (result != ncclSuccess && result != ncclInProgress)
    return ncclError(*made, result, "joining it");
  MGC_TRY(settle(*made, "joining it"));
  *comm = made.release();
  return Status::ok();
}

// In order where all is well: the others may still need what was sent to them.
void dropComm(mgc_comm *comm) {
  if (!comm->device->enter().isOk() || !finalize(*comm).isOk())
    return abortAndDelete(comm);
  comm->nccl->ncclCommDestroy(comm->handle);
  delete comm;
}

Status checkComm(mgc_comm *comm) {
  const auto settled = hasSettled(*comm, "asking whether it works");
  return settled.status();
}

Status allReduce(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                 int64_t elements) {
  return enqueue(*stream, *comm, "all-reduce", [&](const Nccl &nccl) {
    return nccl.ncclAllReduce(source(from), target(to), size_t(elements), typeOf(type), reductionOf(reduce),
                              comm->handle, stream->handle);
  });
}

Status allGather(mgc_stream *stream, mgc_comm *comm, mgc_type type, mgc_address to, mgc_address from,
                 int64_t elements) {
  return enqueue(*stream, *comm, "all-gather", [&](const Nccl &nccl) {
    return nccl.ncclAllGather(source(from), target(to), size_t(elements), typeOf(type), comm->handle, stream->handle);
  });
}

Status reduceScatter(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to,
                     mgc_address from, int64_t elements) {
  return enqueue(*stream, *comm, "reduce-scatter", [&](const Nccl &nccl) {
    return nccl.ncclReduceScatter(source(from), target(to), size_t(elements), typeOf(type), reductionOf(reduce),
                                  comm->handle, stream->handle);
  });
}

Status send(mgc_stream *stream, mgc_comm *comm, mgc_address from, int64_t bytes, int64_t peer) {
  return enqueue(*stream, *comm, "send", [&](const Nccl &nccl) {
    return nccl.ncclSend(source(from), size_t(bytes), ncclInt8, int(peer), comm->handle, stream->handle);
  });
}

Status receive(mgc_stream *stream, mgc_comm *comm, mgc_address to, int64_t bytes, int64_t peer) {
  return enqueue(*stream, *comm, "receive", [&](const Nccl &nccl) {
    return nccl.ncclRecv(target(to), size_t(bytes), ncclInt8, int(peer), comm->handle, stream->handle);
  });
}

Status beginGroup(mgc_device *device) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(nccl, Nccl::get());
  if (const ncclResult_t result = nccl->ncclGroupStart(); result != ncclSuccess)
    return errorf("{}: beginning a group of NCCL calls: {}", device->name, nccl->ncclGetErrorString(result));
  group.isOpen = true;
  return Status::ok();
}

Status endGroup(mgc_device *device) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(nccl, Nccl::get());
  NcclGroup ended = std::exchange(group, {});
  const ncclResult_t result = nccl->ncclGroupEnd();
  ended.locks.clear();
  if (result != ncclSuccess && result != ncclInProgress)
    return errorf("{}: a group of NCCL calls: {}: {}", device->name, nccl->ncclGetErrorString(result),
                  nccl->ncclGetLastError(nullptr));
  for (mgc_comm *comm : ended.members)
    MGC_TRY(settle(*comm, "a group of calls"));
  return Status::ok();
}

} // namespace mgc::cuda
