// Plugins that cannot be used, and what is said of them.
#include "runtime/device/Plugin.h"
#include "test/Places.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace mgc;

namespace {

const std::string kNoPlugin = builtFile("test/runtime/device/plugin/libno_plugin.so"),
                  kOtherPlugin = builtFile("test/runtime/device/plugin/libother_plugin.so");

std::string openError(const std::string &name, const std::string &path = {}) {
  const auto opened = plugin::Plugin::open(name, path);
  return opened.isOk() ? "" : opened.status().message();
}

void expectParts(const std::string &text, std::initializer_list<const char *> parts) {
  for (const char *part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << text << "\n  lacks: " << part;
}

TEST(Plugin, missingSaysWhereItWasLookedForAndHowItIsBuilt) {
  expectParts(openError("abacus"),
              {"the plugin for abacus devices, libmgc_abacus.so, is not at", "/unit/libmgc_abacus.so",
               "/lib/libmgc_abacus.so", "/lib/mgc/libmgc_abacus.so", "preset cuda", "beside mgrun"});
}

TEST(Plugin, pathThatIsNothing) { expectParts(openError("cuda", "/nowhere/x.so"), {"does not open", "/nowhere/x.so"}); }

TEST(Plugin, libraryThatIsNoPlugin) {
  expectParts(openError("cuda", kNoPlugin), {"is no plugin for devices", "mgc_device_api"});
}

TEST(Plugin, aFileThatWasNotCopiedWhole) {
  const std::string path = testing::TempDir() + "short_plugin.so";
  std::filesystem::copy_file(kOtherPlugin, path, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  expectParts(openError("cuda", path), {path.c_str(), "ends after", "was it copied whole?"});
}

TEST(Plugin, otherVersion) {
  const std::string versions =
      fmt::format("is of version {}, expected {}", MGC_DEVICE_API_VERSION + 1000, int(MGC_DEVICE_API_VERSION));
  expectParts(openError("cuda", kOtherPlugin), {versions.c_str(), "from the same sources"});
}

} // namespace
