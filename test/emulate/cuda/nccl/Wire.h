// Messages between the ranks of a communicator and the hub that joins them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nccl.h>
#include <string>
#include <vector>

namespace mgc::emulate {

enum class Kind : uint32_t { join, leave, meet, allReduce, allGather, reduceScatter, send, receive, failed };

struct Header {
  Kind kind = Kind::failed;
  uint32_t type = 0;  // ncclDataType_t
  uint32_t op = 0;    // ncclRedOp_t; of a meeting: whether it is for sending
  uint32_t peer = 0;  // the peer of a send, receive or meeting; the rank that joins
  uint64_t count = 0; // elements of each rank; how many ranks there are, when joining
  uint64_t bytes = 0; // size of the data after the header
};

struct Message {
  Header header;
  std::vector<char> data; // the text of a failure
};

size_t bytesOf(uint32_t type); // 0: a type that is not known
const char *nameOf(Kind kind);

// False when the other end has gone.
bool write(int socket, const Message &message);
bool read(int socket, Message &message);
// Sockets of this machine, by name. -1: an error.
int listenAt(const std::string &name);
int connectTo(const std::string &name);

} // namespace mgc::emulate
