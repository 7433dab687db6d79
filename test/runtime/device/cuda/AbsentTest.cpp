// What is said where there is no driver, or one that is too old. The driver is opened once in a process, where LD_LIBRARY_PATH was
// when the process began: each test is a process of its own.
#include "runtime/device/Plugin.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace mgc;

namespace {

// What this program prints when it runs as `probe` with LD_LIBRARY_PATH.
std::string probe(const std::string &libraryPath) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  FILE *pipe = popen(fmt::format("LD_LIBRARY_PATH='{}' '{}' --gtest_filter=Probe.DISABLED_openDevice "
                                 "--gtest_also_run_disabled_tests 2>&1",
                                 libraryPath, program)
                         .c_str(),
                     "r");
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
  puts(count.isOk() ? fmt::format("devices: {}", *count).c_str()
                    : ("count: " + count.status().message()).c_str());
  const auto device = plugin->openDevice(0);
  puts(device.isOk() ? "opened" : ("open: " + device.status().message()).c_str());
}

TEST(Absent, noDriver) {
  const std::string text = probe("");
  if (text.find("libcuda.so.1 was not found") == std::string::npos)
    GTEST_SKIP() << "this machine has a driver:\n" << text;
  expectParts(text,
              {"count: libcuda.so.1 was not found in the loader's own folders (LD_LIBRARY_PATH is not set)",
               "open: libcuda.so.1 was not found", "install the driver", "--target cpu"});
}

TEST(Absent, driverThatIsTooOld) {
  expectParts(probe(MGC_TEST_OLD_DRIVER),
              {std::string("open: ") + MGC_TEST_OLD_DRIVER + "/libcuda.so.1 lacks ", "cuMemAlloc_v2, ",
               "it is too old; expected the driver of CUDA 1"});
}

} // namespace
