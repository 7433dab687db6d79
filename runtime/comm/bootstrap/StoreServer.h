// StoreServer: the store itself, a thread of rank 0's process. Besides values by key it knows which processes live:
// when one ends without having finished, or says that it failed, all others are told why at once.
#pragma once

#include "runtime/comm/bootstrap/Handshake.h"

namespace mgc {

// Listens for a store's processes; the error says who has the port. Port 0: any that is free.
Result<Descriptor> listenForStore(const Endpoint &at);

class StoreServer {
public:
  // Expects the processes of `own.run`; `own` is rank 0, for messages. Port 0: any that is free. `listening`, where it is open,
  // listens there already. `stragglers`: for processes that start late to call, and hear that there is no run.
  static Result<std::unique_ptr<StoreServer>> start(const Endpoint &at, const Joining &own, Descriptor listening = {},
                                                    std::chrono::milliseconds stragglers = std::chrono::seconds(10));
  // Stays until the others have heard the last word: two seconds at most, or `stragglers` when the start has failed and
  // not all have called.
  virtual ~StoreServer() = default;
  virtual int64_t port() const = 0;
};

} // namespace mgc
