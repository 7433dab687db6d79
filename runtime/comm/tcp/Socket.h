// TCP sockets with deadlines, and errors for people. No function here blocks beyond its deadline, and none raises
// SIGPIPE.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mgc {

using Deadline = std::chrono::steady_clock::time_point;

// For poll(2) and epoll_wait(2): milliseconds from now, rounded up; 0 when it has passed.
int untilDeadline(Deadline deadline);

// Where a process listens.
struct Endpoint {
  std::string host; // name or number
  int64_t port = 0;
};
std::string toString(const Endpoint &endpoint); // "node1:29500", "[::1]:29500"

// Listens on `at`; without a host on all addresses of this machine, with port 0 on any that is free. The socket does
// not block.
Result<Descriptor> listenOn(const Endpoint &at);
int64_t portOf(const Descriptor &listening);

// The next connection, or an object that is not open when there is none now. It does not block.
Descriptor acceptOn(const Descriptor &listening);

// Connects, again and again while nobody listens, until the deadline. The socket does not block.
Result<Descriptor> connectTo(const Endpoint &to, Deadline deadline);

// Whether the host is loopback on every machine: "localhost" and numbers. Debian's installer makes the name of a machine loopback
// on that machine alone.
bool isLoopbackEverywhere(const std::string &host);
std::string hostName(); // name of this machine
// Ok where one of the host's addresses is one of this machine's, or of none in particular (0.0.0.0, ::).
Status verifyIsHere(const std::string &host);

// Moves the bytes that can be moved now; returns their number, or 0. An error when the connection is closed or broken. Errors of
// sends and receives say what became of the other end, to be read behind its name.
Result<int64_t> sendSome(const Descriptor &connection, std::span<const std::byte> bytes);
Result<int64_t> receiveSome(const Descriptor &connection, std::span<std::byte> bytes);
Status sendAll(const Descriptor &connection, std::span<const std::byte> bytes, Deadline deadline);
// Waits for events of poll(2).
Status waitFor(const Descriptor &connection, short events, Deadline deadline);

} // namespace mgc
