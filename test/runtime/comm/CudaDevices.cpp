// gpu/comm_test and emulated/comm_test: the backends of devices on the GPUs that the driver sees, real ones or stand-ins
// (test/emulate/cuda). Without one, says why and ends with 77: ctest reports it as skipped.
#include "test/runtime/comm/Backends.h"
#include "test/runtime/device/cuda/RunOnDevices.h"

#include <optional>

namespace mgc::test {

namespace {

std::optional<plugin::Plugin> openedPlugin;
std::vector<plugin::PluginDevice> openedDevices; // stay open: to open one that no one else has takes long
std::string ncclError;                           // why there is none
bool isReal = true;

Status open() {
  MGC_SET(openedPlugin, plugin::Plugin::open("cuda"));
  MGC_ASSIGN(count, openedPlugin->countDevices());
  if (count == 0)
    return Status::error("the driver sees no GPU");
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    MGC_ASSIGN(device, openedPlugin->openDevice(ordinal));
    openedDevices.push_back(std::move(device));
  }
  MGC_ASSIGN(facts, openedDevices[0].describe());
  isReal = !std::string(facts.name).starts_with("Emulated");
  if (const auto id = openedDevices[0].makeCommId(); !id.isOk())
    ncclError = id.status().message();
  return Status::ok();
}

// NCCL that is not there is said; one that does not work is a failure of the tests.
std::string lacksDevices(int64_t ranks) {
  for (const char *missing : {"libnccl.so.2 was not found", "this build of the plugin has none"})
    if (ncclError.find(missing) != std::string::npos)
      return ncclError;
  const auto count = static_cast<int64_t>(openedDevices.size());
  return count < ranks ? fmt::format("{} ranks, each on a GPU of its own, and {} GPUs", ranks, count) : "";
}

// Two terms have one order, and their sum is rounded once.
std::string addsOtherwise(int64_t ranks) {
  return isReal && ranks > 2 ? "NCCL adds in an order of its own, and rounds bf16 at each rank" : "";
}

} // namespace

std::vector<Backend> backends() {
  return {{.name = "sharedDevice", .make = makeSharedDevice, .countsEndDevice = true},
          {.name = "devicePerRank",
           .make = makeDevicePerRank,
           .hostsMeet = false,
           .lacks = lacksDevices,
           .maxKeepsNan = false,
           .addsOtherwise = addsOtherwise}};
}

plugin::PluginDevice openTestDevice(int64_t index) {
  return openedPlugin->openDevice(static_cast<int32_t>(index)).take();
}

} // namespace mgc::test

int main(int argc, char **argv) {
  return mgc::test::runOnDevices(argc, argv, mgc::test::open, [] { mgc::test::openedDevices.clear(); });
}
