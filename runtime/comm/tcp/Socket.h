// TCP sockets with deadlines, and errors for people. No function here blocks beyond its deadline, and none raises
// SIGPIPE.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace mgc {

using Deadline = std::chrono::steady_clock::time_point;

// For poll(2): milliseconds from now, rounded up; 0 when it has passed.
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

// Connects, again and again while nobody listens, until the deadline or until `isGivenUp`, if set. The socket does not block.
Result<Descriptor> connectTo(const Endpoint &to, Deadline deadline,
                             const std::function<bool()> &isGivenUp = nullptr);

// Numbers of the addresses of this end and of the other.
std::string localHostOf(const Descriptor &connection);
std::string peerHostOf(const Descriptor &connection);
bool isLoopback(const std::string &host); // resolves to this machine's loopback
// Whether it does so on every machine: "localhost" and numbers. The name of a machine does on that machine alone, where Debian
// installed it.
bool isLoopbackEverywhere(const std::string &host);
// Ok where one of the host's addresses is one of this machine's, or of none in particular (0.0.0.0, ::).
Status verifyIsHere(const std::string &host);

// All of `bytes`. Errors of sends and receives say what became of the other end, to be read behind its name.
Status sendAll(const Descriptor &connection, std::span<const std::byte> bytes, Deadline deadline);
Status receiveAll(const Descriptor &connection, std::span<std::byte> bytes, Deadline deadline);

// Moves the bytes that can be moved now; returns their number, or 0. An error when the connection is closed or broken.
Result<int64_t> sendSome(const Descriptor &connection, std::span<const std::byte> bytes);
Result<int64_t> receiveSome(const Descriptor &connection, std::span<std::byte> bytes);

// A counter that wakes poll(2): an eventfd.
class Waker {
public:
  Waker();
  int number() const { return descriptor_.number(); }
  void wake() const; // from any thread
  void clear() const;

private:
  Descriptor descriptor_;
};

} // namespace mgc
