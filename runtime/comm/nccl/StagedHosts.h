// The hosts of ranks on devices, each a process: what they say goes over `said`; blocks of their memory go over NCCL, through
// buffers of the device.
#pragma once

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <memory>

namespace mgc {

// All ranks make it, before `nccl` connects. All outlive it. A transfer is done when it has begun: both ends wait for each other.
Result<std::unique_ptr<Communicator>> makeStagedHosts(const plugin::PluginDevice &device, Communicator &said,
                                                      Communicator &nccl, std::chrono::milliseconds timeout);

} // namespace mgc
