// Opens the plugin and the first device for all tests. Without one, says why and ends with 77: ctest reports it as skipped.
#include "CudaTest.h"

#include "runtime/base/File.h"
#include "test/Places.h"
#include "test/runtime/device/cuda/RunOnDevices.h"

namespace mgc::test {

namespace {

std::optional<plugin::Plugin> openedPlugin;
std::optional<plugin::PluginDevice> openedDevice;

Status open() {
  MGC_SET(openedPlugin, plugin::Plugin::open("cuda"));
  MGC_SET(openedDevice, openedPlugin->openDevice(0));
  return Status::ok();
}

} // namespace

const plugin::Plugin &cuda() { return *openedPlugin; }
const plugin::PluginDevice &device() { return *openedDevice; }

plugin::Module testModule() {
  const std::string text = must(readFile(testFile("runtime/device/cuda/TestKernels.ptx"), 1 << 20));
  return must(device().loadModule("test kernels", text));
}

} // namespace mgc::test

int main(int argc, char **argv) {
  return mgc::test::runOnDevices(argc, argv, mgc::test::open, [] { mgc::test::openedDevice.reset(); });
}
