// The stand-in of libnccl: ranks are threads or processes of one machine.
#include "test/emulate/cuda/nccl/Comm.h"
#include "test/emulate/cuda/nccl/Hub.h"
#include "test/emulate/cuda/nccl/Reduce.h"

#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <random>
#include <thread>
#include <unistd.h>

using namespace mgc::emulate;

struct ncclComm {
  std::shared_ptr<Comm> comm;
  CUcontext context;
  bool isBlocking = true;
  bool isFinal = false;
  std::string message; // result of ncclGetLastError
};

namespace {

// The calls of this thread between ncclGroupStart and ncclGroupEnd.
thread_local int groupDepth = 0;
thread_local std::vector<std::pair<ncclComm_t, std::vector<Operation>>> grouped;
thread_local std::vector<ncclComm_t> groupedAborts;

int libraryVersion() {
  const char *asked = std::getenv("MGC_EMULATE_NCCL_VERSION");
  return asked ? std::atoi(asked) : NCCL_VERSION_CODE;
}

ncclResult_t settled(CUresult result) { return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError; }

Operation operationOf(Kind kind, const void *from, void *to, size_t count, ncclDataType_t type, size_t shares,
                      cudaStream_t stream) {
  Operation operation;
  operation.header.kind = kind;
  operation.header.type = type;
  operation.header.count = count;
  operation.header.bytes = from ? shares * count * bytesOf(type) : 0;
  operation.from = operation.header.bytes ? reinterpret_cast<CUdeviceptr>(from) : 0;
  operation.to = reinterpret_cast<CUdeviceptr>(to);
  operation.stream = reinterpret_cast<CUstream>(stream);
  return operation;
}

// `work` in a thread of its own, or now for a communicator that blocks.
template <typename Body> ncclResult_t begin(ncclComm_t comm, Body body) {
  comm->comm->setState(ncclInProgress, "");
  auto work = [kept = comm->comm, context = comm->context, body] {
    cuCtxSetCurrent(context);
    body(*kept);
  };
  if (!comm->isBlocking) {
    std::thread(work).detach();
    return ncclInProgress;
  }
  work();
  return comm->comm->state();
}

// In a thread of its own, unless the communicator blocks, where the others' hosts must come first.
ncclResult_t start(ncclComm_t comm, std::vector<Operation> operations) {
  if (comm->comm->haveMet(operations))
    return settled(comm->comm->enqueue(std::move(operations)));
  return begin(comm, [operations](Comm &meeting) {
    if (meeting.meet(operations))
      meeting.setState(settled(meeting.enqueue(operations)), "");
  });
}

ncclResult_t add(ncclComm_t comm, const Operation &operation) {
  if (bytesOf(operation.header.type) == 0 || operation.header.peer >= uint32_t(comm->comm->size))
    return ncclInvalidArgument;
  if (const ncclResult_t state = comm->comm->state(); state != ncclSuccess)
    return state == ncclInProgress ? ncclInvalidUsage : state;
  if (groupDepth == 0)
    return start(comm, {operation});
  for (auto &[member, operations] : grouped)
    if (member == comm)
      return operations.push_back(operation), ncclSuccess;
  grouped.push_back({comm, {operation}});
  return ncclSuccess;
}

// As in NCCL, a communicator ends when its operations have, and when no graph has it any more. A long wait is reported.
void release(ncclComm_t comm) {
  constexpr int kLong = 3000; // ms
  for (int waited = 0; comm->comm.use_count() > 1; ++waited) {
    if (waited == kLong)
      fmt::print(stderr, "emulated nccl: rank {} waits for work or graphs that have its communicator\n",
                 comm->comm->rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  delete comm;
}

ncclResult_t initialise(ncclComm_t *comm, int size, const ncclUniqueId &id, int rank, bool isBlocking) {
  if (size < 1 || rank < 0 || rank >= size)
    return ncclInvalidArgument;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
    return ncclUnhandledCudaError;
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  *comm = new ncclComm{std::make_shared<Comm>(name, size, rank), context, isBlocking, false, {}};
  return begin(*comm, [](Comm &joining) { joining.join(); });
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = libraryVersion();
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  static const std::map<ncclResult_t, const char *> names = {
      {ncclSuccess, "no error"},
      {ncclUnhandledCudaError, "unhandled cuda error"},
      {ncclSystemError, "unhandled system error"},
      {ncclInternalError, "internal error"},
      {ncclInvalidArgument, "invalid argument"},
      {ncclInvalidUsage, "invalid usage"},
      {ncclRemoteError, "remote process exited or there was a network error"},
      {ncclInProgress, "NCCL operation in progress"},
  };
  const auto found = names.find(result);
  return found == names.end() ? "unknown result code" : found->second;
}

const char *ncclGetLastError(ncclComm_t comm) {
  if (!comm)
    return "";
  comm->message = comm->comm->message();
  return comm->message.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::random_device random;
  const std::string name = fmt::format("mgc-emulated-nccl-{}-{:08x}{:08x}", getpid(), random(), random());
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.data(), name.size());
  return Hub::make(name) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
  return initialise(comm, size, id, rank, !config || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
  return initialise(comm, size, id, rank, true);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  *count = comm->comm->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  *rank = comm->comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  *error = comm->comm->state();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm->isFinal)
    return ncclInvalidArgument;
  comm->isFinal = true;
  return begin(comm, [](Comm &leaving) {
    leaving.finalize();
    leaving.setState(ncclSuccess, "");
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->isFinal && comm->comm->state() == ncclSuccess)
    comm->comm->finalize();
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->comm->abort();
  if (groupDepth > 0 && libraryVersion() >= NCCL_VERSION(2, 22, 0))
    return groupedAborts.push_back(comm), ncclSuccess;
  release(comm);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  Operation operation = operationOf(Kind::allReduce, from, to, count, type, 1, stream);
  operation.header.op = op;
  return canReduce(type, op) ? add(comm, operation) : ncclInvalidArgument;
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  Operation operation = operationOf(Kind::reduceScatter, from, to, count, type, comm->comm->size, stream);
  operation.header.op = op;
  return canReduce(type, op) ? add(comm, operation) : ncclInvalidArgument;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, operationOf(Kind::allGather, from, to, count, type, 1, stream));
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Operation operation = operationOf(Kind::send, from, nullptr, count, type, 1, stream);
  operation.header.peer = static_cast<uint32_t>(peer);
  return add(comm, operation);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  Operation operation = operationOf(Kind::receive, nullptr, to, count, type, 1, stream);
  operation.header.peer = static_cast<uint32_t>(peer);
  return add(comm, operation);
}

ncclResult_t ncclGroupStart() {
  ++groupDepth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groupDepth == 0)
    return ncclInvalidUsage;
  if (--groupDepth > 0)
    return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto &[comm, operations] : std::exchange(grouped, {}))
    if (const ncclResult_t one = start(comm, std::move(operations));
        result == ncclSuccess || (one != ncclSuccess && one != ncclInProgress))
      result = one;
  // All of them were told before the first is waited for: a graph may have several.
  for (ncclComm_t comm : std::exchange(groupedAborts, {}))
    release(comm);
  return result;
}
}
