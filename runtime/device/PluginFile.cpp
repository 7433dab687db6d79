// See PluginFile.h.
#include "runtime/device/PluginFile.h"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <vector>

namespace mgc::plugin {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> candidates(const std::string &file) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path lib = folder.parent_path() / "lib";
  return {folder / file, lib / file, lib / "mgc" / file};
}

Result<std::string> locate(const PluginFacts &facts) {
  const std::string file = "libmgc_" + facts.name + ".so";
  std::string places;
  for (const fs::path &path : candidates(file)) {
    std::error_code error;
    if (fs::exists(path, error))
      return path.string();
    places += "\n  " + path.string();
  }
  return errorf("{}, {}, is not at{}\n  it is built {}, and lies beside mgrun, in ../lib or in ../lib/mgc from there",
                facts.what, file, places, facts.built);
}

} // namespace

// Section headers come last.
Status verifyWhole(const std::string &file) {
  Elf64_Ehdr header{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char *>(&header), sizeof header);
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(file, error);
  if (!stream || error || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return Status::ok(); // the loader says what it is
  const uint64_t expected = header.e_shoff + uint64_t(header.e_shnum) * header.e_shentsize;
  return bytes >= expected ? Status::ok()
                           : errorf("ends after {} bytes, expected at least {}: was it copied whole?", bytes, expected);
}

Result<OpenedPlugin> openPlugin(const PluginFacts &facts, const std::string &path) {
  std::string file = path.empty() ? "" : fs::absolute(path).string(); // the loader looks for mere names elsewhere
  if (file.empty())
    MGC_SET(file, locate(facts));
  MGC_TRY(verifyWhole(file).at(file));
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return errorf("{} does not open: {}", facts.what, dlerror());
  const auto entry = reinterpret_cast<const void *(*)()>(dlsym(library, facts.symbol));
  if (!entry)
    return errorf("{}: is no plugin for {}: it has no function {}", file, facts.serves, facts.symbol);
  const void *table = entry();
  const int version = *static_cast<const int32_t *>(table);
  if (version != facts.version)
    return errorf("{}: is of version {}, expected {}: build the plugin and mgrun from the same sources", file, version,
                  facts.version);
  return OpenedPlugin{table, file};
}

std::string inOneLine(const Status &error) {
  std::string text;
  for (const char c : error.message()) {
    const char shown = c == '\n' ? ' ' : c;
    if (shown != ' ' || !text.ends_with(' '))
      text += shown;
  }
  return text;
}

} // namespace mgc::plugin
