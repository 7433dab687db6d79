// See Version.h.
#include "tools/version/Version.h"

#include "mgc_commit.h"

#include <CLI/Version.hpp>
#include <fmt/format.h>
#include <nlohmann/detail/abi_macros.hpp>

namespace mgc::tools {

namespace {

std::string builtBy() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string sanitizers() {
  constexpr std::string_view kSanitizers = MGC_SANITIZERS;
  return kSanitizers.empty() ? "" : fmt::format(" with sanitizers {}", kSanitizers);
}

} // namespace

std::string jsonLibrary() {
  return fmt::format("nlohmann/json {}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH);
}
std::string commandLineLibrary() { return "CLI11 " CLI11_VERSION; }

std::string versionText(const std::string &tool, const std::vector<std::string> &libraries) {
  std::string text = fmt::format("{} of mgc {}, commit {}, {} build by {}{}", tool, MGC_VERSION, MGC_COMMIT,
                                 MGC_BUILD_TYPE, builtBy(), sanitizers());
  text += fmt::format("\n  fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  for (const std::string &library : libraries)
    text += "\n  " + library;
  return text;
}

} // namespace mgc::tools
