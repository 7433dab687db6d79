// unit/comm_test: every backend; those of devices on the stand-in (test/runtime/device/host_plugin), of which there are as many
// as are asked for.
#include "test/Places.h"
#include "test/runtime/comm/Backends.h"

namespace mgc::test {

std::vector<Backend> backends() {
  return {{"threads", makeThreadedWorld},
          {.name = "sharedDevice", .make = makeSharedDevice},
          {.name = "devicePerRank", .make = makeDevicePerRank, .hostsMeet = false}};
}

plugin::PluginDevice openTestDevice(int64_t) {
  return plugin::Plugin::open("host", builtFile("test/runtime/device/libhost_plugin.so")).take().openDevice(0).take();
}

} // namespace mgc::test
