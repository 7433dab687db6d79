// One rank of a world of processes, over the NCCL functions of a device's plugin. Each group, and each channel from one
// rank to another, has its own NCCL communicator, made at load time.
#pragma once

#include "runtime/comm/Communicator.h"

#include <functional>
#include <memory>
#include <string>

namespace mgc {

// How processes come to know each other's bytes at load time: one of those that call it with a key makes them, all get
// them. A key is used once.
using Share = std::function<Result<std::string>(const std::string &key, bool isMaker,
                                                const std::function<Result<std::string>()> &make)>;

struct NcclOptions {
  int64_t rank = 0, ranks = 1;
  std::chrono::milliseconds timeout{600'000}; // limit of each wait of the host
  Share share;
  std::function<Status()> barrier; // meeting point of all processes
  std::function<Status()> check;   // whether one has aborted
};

// Transfers do not carry what they are: that both ends name the same value is the plan's proof.
std::unique_ptr<Communicator> makeNcclRank(const plugin::PluginDevice &device, NcclOptions options);

} // namespace mgc
