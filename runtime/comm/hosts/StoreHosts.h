// StoreHosts: the hosts of ranks on devices, which are processes and have no MPI. The few messages between steps go
// over the store; it moves no tensors.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/bootstrap/Processes.h"

namespace mgc {

// Barriers, and collectives all_gather and all_reduce of at most so many bytes of a rank. `processes` outlive it.
inline constexpr int64_t kMostHostBytes = 4096;
std::unique_ptr<Communicator> makeStoreHosts(Processes &processes, std::chrono::milliseconds timeout);

} // namespace mgc
