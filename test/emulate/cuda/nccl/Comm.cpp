#include "test/emulate/cuda/nccl/Comm.h"

#include "test/emulate/cuda/nccl/Hub.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace mgc::emulate {

namespace {

// A network that lets hosts meet and drops data.
bool isSilent() { return std::getenv("MGC_EMULATE_NCCL_SILENT") != nullptr; }

} // namespace

Comm::~Comm() {
  if (socket_ >= 0)
    ::close(socket_);
  if (last_)
    cuEventDestroy(last_);
}

void Comm::setState(ncclResult_t state, const std::string &message) {
  std::lock_guard lock(mutex_);
  if (state_ == ncclSuccess || state_ == ncclInProgress) {
    state_ = state;
    message_ = message;
  }
}

std::string Comm::message() {
  std::lock_guard lock(mutex_);
  return message_;
}

// A hub that answers while nothing is asked has bad news.
ncclResult_t Comm::state() {
  std::lock_guard lock(mutex_);
  char byte;
  const bool isIdle = state_ == ncclSuccess && !isBusy_ && !hasLeft_ && socket_ >= 0;
  if (isIdle && ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) {
    Message news;
    state_ = ncclRemoteError;
    message_ = read(socket_, news) ? std::string(news.data.begin(), news.data.end())
                                   : "the connection to the other ranks ended";
  }
  return state_;
}

void Comm::noteFailure(const std::string &why) {
  setState(ncclRemoteError, why);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return isAborted_; });
}

void Comm::join() {
  const int socket = connectTo(name_);
  if (socket < 0)
    return setState(ncclSystemError, "no communicator has this identity (or the process that made it has ended)");
  socket_ = socket;
  Message answer;
  write(socket, {{.kind = Kind::join, .peer = uint32_t(rank), .count = uint64_t(size)}, {}});
  if (!read(socket, answer))
    return setState(ncclRemoteError, "the connection to the other ranks ended while joining");
  if (answer.header.kind == Kind::failed)
    return setState(ncclInvalidUsage, std::string(answer.data.begin(), answer.data.end()));
  setState(ncclSuccess, "");
}

void Comm::finalize() {
  if (last_)
    cuEventSynchronize(last_);
  {
    std::lock_guard lock(mutex_);
    hasLeft_ = true;
  }
  write(socket_, {{.kind = Kind::leave}, {}});
  if (auto hub = Hub::find(name_))
    hub->waitForAll();
}

void Comm::abort() {
  std::lock_guard lock(mutex_);
  isAborted_ = true;
  if (socket_ >= 0)
    ::shutdown(socket_, SHUT_RDWR);
  changed_.notify_all();
}

std::set<std::pair<uint32_t, Kind>> Comm::unmetOf(const std::vector<Operation> &operations) {
  std::lock_guard lock(mutex_);
  std::set<std::pair<uint32_t, Kind>> unmet;
  for (const auto &[header, from, to, stream] : operations)
    if ((header.kind == Kind::send || header.kind == Kind::receive) && !met_.count({header.peer, header.kind}))
      unmet.insert({header.peer, header.kind});
  return unmet;
}

bool Comm::haveMet(const std::vector<Operation> &operations) { return unmetOf(operations).empty(); }

bool Comm::meet(const std::vector<Operation> &operations) {
  std::lock_guard running(running_);
  const auto unmet = unmetOf(operations);
  for (const auto &[peer, kind] : unmet)
    write(socket_, {{.kind = Kind::meet, .op = kind == Kind::send, .peer = peer}, {}});
  for (size_t i = 0; i < unmet.size(); ++i) {
    Message answer;
    if (!read(socket_, answer))
      return noteFailure("the connection to the other ranks ended"), false;
    if (answer.header.kind == Kind::failed)
      return noteFailure(std::string(answer.data.begin(), answer.data.end())), false;
  }
  std::lock_guard lock(mutex_);
  met_.insert(unmet.begin(), unmet.end());
  return true;
}

// Streams of a group meet before its first one works, and go on behind it. Operations of a graph are in order by its edges.
CUresult Comm::enqueue(std::vector<Operation> operations) {
  const CUstream stream = operations[0].stream;
  if (!last_)
    cuEventCreate(&last_, CU_EVENT_DISABLE_TIMING);
  std::vector<CUstream> others;
  for (const Operation &operation : operations)
    if (operation.stream != stream && std::find(others.begin(), others.end(), operation.stream) == others.end())
      others.push_back(operation.stream);
  CUevent ready = nullptr;
  cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING);
  for (CUstream other : others) {
    cuEventRecord(ready, other);
    cuStreamWaitEvent(stream, ready, 0);
  }
  const CUresult result = mgcEmulateEnqueueBehind(
      stream, last_, [self = shared_from_this(), operations = std::move(operations)] { return self->run(operations); });
  for (CUstream other : others) {
    cuEventRecord(ready, stream);
    cuStreamWaitEvent(other, ready, 0);
  }
  cuEventDestroy(ready);
  return result;
}

CUresult Comm::run(const std::vector<Operation> &operations) {
  std::lock_guard running(running_);
  {
    std::lock_guard lock(mutex_);
    if (isAborted_)
      return CUDA_SUCCESS;
    isBusy_ = true;
  }
  exchange(operations);
  std::lock_guard lock(mutex_);
  isBusy_ = false;
  return CUDA_SUCCESS;
}

// Says all that the group asks for, then takes the answers in the order in which they come.
bool Comm::exchange(const std::vector<Operation> &operations) {
  if (isSilent()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return isAborted_; });
    return false;
  }
  for (const Operation &operation : operations) {
    Message message{operation.header, {}};
    if (operation.from) {
      const auto *data =
          static_cast<const char *>(mgcEmulateHost(operation.from, message.header.bytes, nameOf(message.header.kind)));
      if (!data)
        return false;
      message.data.assign(data, data + message.header.bytes);
    }
    message.header.bytes = message.data.size();
    if (!write(socket_, message))
      return noteFailure("the connection to the other ranks ended"), false;
  }
  for (std::vector<Operation> open = operations; !open.empty();) {
    Message answer;
    if (!read(socket_, answer))
      return noteFailure("the connection to the other ranks ended"), false;
    if (!accept(answer, open))
      return false;
  }
  return true;
}

bool Comm::accept(const Message &answer, std::vector<Operation> &open) {
  if (answer.header.kind == Kind::failed)
    return noteFailure(std::string(answer.data.begin(), answer.data.end())), false;
  auto asked = std::find_if(open.begin(), open.end(), [&](const Operation &operation) {
    return operation.header.kind == answer.header.kind && operation.header.peer == answer.header.peer;
  });
  if (asked == open.end())
    return noteFailure("an answer that nothing was asked for"), false;
  if (!answer.data.empty()) {
    void *place = mgcEmulateHost(asked->to, answer.data.size(), nameOf(answer.header.kind));
    if (!place)
      return false;
    std::memcpy(place, answer.data.data(), answer.data.size());
  }
  open.erase(asked);
  return true;
}

} // namespace mgc::emulate
