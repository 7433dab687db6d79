// Opens the plugin and the first device for all tests. Without one, says why and ends with 77: ctest reports it as skipped.
#include "CudaTest.h"

#include "runtime/base/File.h"

#include <iostream>

namespace mgc::test {

namespace {

std::optional<plugin::Plugin> openedPlugin;
std::optional<plugin::Device> openedDevice;

Status open() {
  MGC_ASSIGN(opened, plugin::Plugin::open("cuda"));
  openedPlugin = opened;
  MGC_ASSIGN(first, openedPlugin->openDevice(0));
  openedDevice = std::move(first);
  return Status::ok();
}

} // namespace

const plugin::Plugin &cuda() { return *openedPlugin; }
const plugin::Device &device() { return *openedDevice; }

plugin::Module testModule() {
  const std::string text = must(readFile(MGC_TEST_PTX, 1 << 20));
  return must(device().loadModule(text));
}

} // namespace mgc::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const mgc::Status opened = mgc::test::open(); !opened.isOk()) {
    std::cout << "skipped, for there is no device: " << opened.message() << "\n";
    return 77;
  }
  const int failed = RUN_ALL_TESTS();
  mgc::test::openedDevice.reset();
  return failed;
}
