// See Socket.h.
#include "runtime/comm/tcp/Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fmt/ranges.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr auto kOneTry = 5s;
constexpr auto kPauseBetweenTries = 50ms;

Result<Addresses> resolve(const Endpoint &endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0)
    return errorf("{}: the address of '{}' is not known: {}", toString(endpoint), endpoint.host,
                  error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

void setOption(const Descriptor &socket, int level, int option, int value) {
  (void)setsockopt(socket.number(), level, option, &value,
                   sizeof value); // without it, the socket works as well
}

Descriptor openSocket(const addrinfo &address) {
  return Descriptor(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

constexpr auto kSilence = 30s; // silence after which a machine counts as gone

// Small messages go at once; a machine that is cut off is noticed, whether it was being sent something or not: TCP_USER_TIMEOUT
// bounds keepalive probes too (tcp(7)).
void tune(const Descriptor &connection) {
  setOption(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(connection, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(connection, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  setOption(connection, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  setOption(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::chrono::milliseconds(kSilence).count()));
}

using NameCall = int (*)(int, sockaddr *, socklen_t *);

sockaddr_storage addressOf(const Descriptor &socket, NameCall call) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  (void)call(socket.number(), reinterpret_cast<sockaddr *>(&address), &size);
  return address;
}

// Where no process listens, a connection to a port of this machine may by chance come from that same port.
bool isConnectedToItself(const Descriptor &connection) {
  const sockaddr_storage own = addressOf(connection, getsockname), peer = addressOf(connection, getpeername);
  return std::memcmp(&own, &peer, sizeof own) == 0;
}

// Closed: errno says why not.
Descriptor connectOnce(const addrinfo &address, Deadline deadline) {
  Descriptor connection = openSocket(address);
  if (!connection.isOpen())
    return connection;
  if (connect(connection.number(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return Descriptor();
  pollfd waiting{connection.number(), POLLOUT, 0};
  if (poll(&waiting, 1, untilDeadline(std::min(deadline, Clock::now() + kOneTry))) <= 0) {
    errno = ETIMEDOUT;
    return Descriptor();
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0 && isConnectedToItself(connection))
    error = ECONNREFUSED;
  errno = error;
  return error == 0 ? std::move(connection) : Descriptor();
}

// Says what became of the other end, by the error of a call; 0: it has closed the connection.
Status lost(int error) {
  switch (error) {
  case 0:
  case ECONNRESET:
  case EPIPE:
    return errorf("ended without a word: was it killed, or out of memory?");
  case ETIMEDOUT:
  case EHOSTUNREACH:
  case EHOSTDOWN:
  case ENETUNREACH:
  case ENETDOWN:
    return errorf("does not answer any more: is its machine down, or the network between? ({})", std::strerror(error));
  default:
    return errorf("is lost: {}", std::strerror(error));
  }
}

bool isForLater(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

} // namespace

int untilDeadline(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000));
}

std::string toString(const Endpoint &endpoint) {
  const bool isIpv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(isIpv6 ? "[{}]:{}" : "{}:{}"), endpoint.host, endpoint.port);
}

Result<Descriptor> listenOn(const Endpoint &at) {
  MGC_ASSIGN(addresses, resolve(at, AI_PASSIVE));
  int error = 0;
  // IPv6 comes first: the IPv6 socket for all addresses takes connections of IPv4 too.
  for (int family : {AF_INET6, AF_INET})
    for (const addrinfo *address = addresses.get(); address; address = address->ai_next) {
      if (address->ai_family != family)
        continue;
      Descriptor listening = openSocket(*address);
      setOption(listening, SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6)
        setOption(listening, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (listening.isOpen() && bind(listening.number(), address->ai_addr, address->ai_addrlen) == 0 &&
          listen(listening.number(), SOMAXCONN) == 0)
        return listening;
      error = errno;
    }
  const std::string where = at.host.empty() ? fmt::format("port {}", at.port) : toString(at);
  return errorf("cannot listen on {}: {}", where, std::strerror(error));
}

int64_t portOf(const Descriptor &listening) {
  const sockaddr_storage address = addressOf(listening, getsockname); // the port of IPv6 lies where that of IPv4 does
  return ntohs(reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

Descriptor acceptOn(const Descriptor &listening) {
  Descriptor connection(accept4(listening.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.isOpen())
    tune(connection);
  return connection;
}

Result<Descriptor> connectTo(const Endpoint &to, Deadline deadline) {
  const auto start = Clock::now();
  while (true) {
    MGC_ASSIGN(addresses, resolve(to, 0));
    int error = 0;
    for (const addrinfo *address = addresses.get(); address; address = address->ai_next) {
      Descriptor connection = connectOnce(*address, deadline);
      if (connection.isOpen()) {
        tune(connection);
        return connection;
      }
      error = errno;
    }
    if (error == EMFILE || Clock::now() + kPauseBetweenTries >= deadline)
      return errorf("no connection to {} in {:.1f} s: {}", toString(to),
                    std::chrono::duration<double>(Clock::now() - start).count(), std::strerror(error));
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
}

bool isLoopbackEverywhere(const std::string &host) {
  in_addr ipv4{};
  in6_addr ipv6{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1)
    return ntohl(ipv4.s_addr) >> 24 == IN_LOOPBACKNET;
  return host == "localhost" || (inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6));
}

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

Status verifyIsHere(const std::string &host) {
  MGC_ASSIGN(addresses, resolve({host, 0}, 0));
  std::vector<std::string> found;
  for (const addrinfo *address = addresses.get(); address; address = address->ai_next) {
    const Descriptor socket = openSocket(*address);
    if (socket.isOpen() && bind(socket.number(), address->ai_addr, address->ai_addrlen) == 0)
      return Status::ok();
    char number[NI_MAXHOST] = "";
    getnameinfo(address->ai_addr, address->ai_addrlen, number, sizeof number, nullptr, 0, NI_NUMERICHOST);
    found.emplace_back(number);
  }
  return errorf("'{}' is no address of this machine{}", host,
                found.size() == 1 && found[0] == host ? "" : fmt::format(" (it is {})", fmt::join(found, ", ")));
}

Result<int64_t> sendSome(const Descriptor &connection, std::span<const std::byte> bytes) {
  const ssize_t sent = send(connection.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0 || isForLater(errno))
    return static_cast<int64_t>(std::max<ssize_t>(sent, 0));
  return lost(errno);
}

Result<int64_t> receiveSome(const Descriptor &connection, std::span<std::byte> bytes) {
  const ssize_t received = recv(connection.number(), bytes.data(), bytes.size(), 0);
  if (received > 0 || bytes.empty())
    return static_cast<int64_t>(received);
  if (received < 0 && isForLater(errno))
    return int64_t(0);
  return lost(received == 0 ? 0 : errno);
}

Status sendAll(const Descriptor &connection, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    MGC_ASSIGN(sent, sendSome(connection, bytes));
    if (sent == 0)
      MGC_TRY(waitFor(connection, POLLOUT, deadline));
    bytes = bytes.subspan(sent);
  }
  return Status::ok();
}

Status waitFor(const Descriptor &connection, short events, Deadline deadline) {
  pollfd waiting{connection.number(), events, 0};
  while (poll(&waiting, 1, untilDeadline(deadline)) <= 0)
    if (Clock::now() >= deadline)
      return Status::error("does not answer in time");
  return Status::ok();
}

} // namespace mgc
