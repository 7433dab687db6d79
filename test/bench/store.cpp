// store_bench [PEERS [BYTES]]: the time in which so many processes (4,096) join the store and gather so many bytes each (64). The
// store is a thread of this process, the peers are another.
#include "runtime/comm/bootstrap/StoreServer.h"
#include "test/runtime/comm/StorePeers.h"

#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>

namespace {

using namespace mgc;

Status measure(int64_t peers, int64_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max; // both ends are in this process
  setrlimit(RLIMIT_NOFILE, &limit);
  const RunIdentity run{peers, 1, 1, {}};
  MGC_ASSIGN(server, StoreServer::start({"127.0.0.1", 0}, {0, "store_bench", run}));
  MGC_ASSIGN(times, test::StorePeers::gather({"127.0.0.1", server->port()}, run, std::string(size_t(bytes), 'x')));
  std::printf("%ld peers: join %.3f s, gather of %ld bytes each %.3f s (%.0f MB sent)\n", long(peers), times.join,
              long(bytes), times.gather, double(peers) * double(peers) * double(bytes + 4) / 1e6);
  return Status::ok();
}

} // namespace

int main(int count, char **arguments) {
  const Status status = measure(count > 1 ? std::atol(arguments[1]) : 4096, count > 2 ? std::atol(arguments[2]) : 64);
  if (!status.isOk())
    std::fprintf(stderr, "store_bench: %s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
