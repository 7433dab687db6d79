#include "test/emulate/cuda/nccl/Wire.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace mgc::emulate {
namespace {

bool writeAll(int socket, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t step = ::send(socket, static_cast<const char *>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (step <= 0)
      return false;
    done += step;
  }
  return true;
}

bool readAll(int socket, void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t step = ::recv(socket, static_cast<char *>(data) + done, bytes - done, 0);
    if (step <= 0)
      return false;
    done += step;
  }
  return true;
}

// An abstract name: it leaves no file behind.
socklen_t addressOf(const std::string &name, sockaddr_un &address) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return offsetof(sockaddr_un, sun_path) + 1 + name.size();
}

} // namespace

size_t bytesOf(uint32_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
    return 8;
  default:
    return 0;
  }
}

const char *nameOf(Kind kind) {
  constexpr const char *names[] = {"join",           "leave", "meeting", "all-reduce", "all-gather",
                                   "reduce-scatter", "send",  "receive", "failure"};
  return names[static_cast<int>(kind)];
}

bool write(int socket, const Message &message) {
  return writeAll(socket, &message.header, sizeof message.header) &&
         writeAll(socket, message.data.data(), message.data.size());
}

bool read(int socket, Message &message) {
  if (!readAll(socket, &message.header, sizeof message.header))
    return false;
  message.data.resize(message.header.bytes);
  return readAll(socket, message.data.data(), message.data.size());
}

int listenAt(const std::string &name) {
  sockaddr_un address;
  const socklen_t length = addressOf(name, address);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(socket, reinterpret_cast<sockaddr *>(&address), length) == 0 && ::listen(socket, 1024) == 0)
    return socket;
  ::close(socket);
  return -1;
}

int connectTo(const std::string &name) {
  sockaddr_un address;
  const socklen_t length = addressOf(name, address);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<sockaddr *>(&address), length) == 0)
    return socket;
  ::close(socket);
  return -1;
}

} // namespace mgc::emulate
