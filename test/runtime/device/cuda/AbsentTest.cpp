// Messages where there is no driver, one that is too old or broken, no GPU, or one that is too old. Libraries are
// opened once in a process, where LD_LIBRARY_PATH was when it began: each probe is a process of its own.
#include "runtime/device/Plugin.h"
#include "test/Places.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace mgc;

namespace {

const std::string kEmulated = builtFile("emulate/cuda");

// The folder of a library that is too old or broken.
std::string unfit(const std::string &name) { return builtFile("test/runtime/device/cuda/" + name); }

// The output of this program when it runs as the probe, with LD_LIBRARY_PATH and settings of the emulated driver.
std::string probe(const std::string &libraryPath, const std::string &settings = "") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("LD_LIBRARY_PATH='{}' MGC_EMULATE_CUDA='{}' '{}' --gtest_filter=Probe.DISABLED_openDevice "
                  "--gtest_also_run_disabled_tests 2>&1",
                  libraryPath, settings, program);
  FILE *pipe = popen(command.c_str(), "r");
  std::string text;
  for (char buffer[512]; fgets(buffer, sizeof buffer, pipe);)
    text += buffer;
  EXPECT_EQ(pclose(pipe), 0) << text;
  return text;
}

void expectParts(const std::string &text, std::initializer_list<std::string> parts) {
  for (const std::string &part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << text << "\n  lacks: " << part;
}

// Run by the other tests.
TEST(Probe, DISABLED_openDevice) {
  const auto plugin = plugin::Plugin::open("cuda");
  ASSERT_TRUE(plugin.isOk()) << plugin.status().message();
  const auto count = plugin->countDevices();
  puts(count.isOk() ? fmt::format("devices: {}", *count).c_str() : ("count: " + count.status().message()).c_str());
  const auto device = plugin->openDevice(0);
  puts(device.isOk() ? "opened" : ("open: " + device.status().message()).c_str());
  if (!device.isOk())
    return;
  const auto id = device->makeCommId();
  puts(id.isOk() ? "has NCCL" : ("NCCL: " + id.status().message()).c_str());
}

TEST(Absent, noDriver) {
  const std::string text = probe("");
  if (text.find("libcuda.so.1 was not found") == std::string::npos)
    GTEST_SKIP() << "this machine has a driver:\n" << text;
  expectParts(text, {"count: libcuda.so.1 was not found in the loader's own folders (LD_LIBRARY_PATH is not set)",
                     "open: libcuda.so.1 was not found", "install the driver", "--target cpu"});
}

TEST(Absent, driverThatIsTooOld) {
  expectParts(probe(unfit("old_driver")), {"open: " + unfit("old_driver") + "/libcuda.so.1 lacks ", "cuMemAlloc_v2, ",
                                           "it is too old; expected the driver of CUDA 1"});
}

TEST(Absent, driverThatDoesNotStart) {
  expectParts(probe(unfit("mismatched_driver")),
              {"open: the NVIDIA driver", "does not start: error 803", "restart the machine"});
}

TEST(Absent, noGpu) {
  expectParts(probe(kEmulated, "devices=0"), {"open: ", "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"});
}

TEST(Absent, gpuThatIsTooOld) {
  expectParts(probe(kEmulated, "capability=75"), {"devices: 1", "has compute capability 7.5; expected 8.0 or higher"});
}

#ifdef MGC_TEST_NCCL
TEST(Absent, ncclThatIsTooOld) {
  expectParts(
      probe(unfit("old_nccl") + ":" + kEmulated),
      {"opened", "NCCL: " + unfit("old_nccl") + "/libnccl.so.2 is NCCL 0.0.0; expected NCCL 2.18.0 or a later 2.x"});
}
#endif

} // namespace
