// See Library.h.
#include "runtime/device/cuda/Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

namespace mgc::cuda {

namespace {

std::string pathOf(void *handle, const char *name) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
    return map->l_name;
  return name;
}

std::string searched() {
  const char *path = std::getenv("LD_LIBRARY_PATH");
  return path && *path ? fmt::format("LD_LIBRARY_PATH ({}) and the loader's own folders", path)
                       : "the loader's own folders (LD_LIBRARY_PATH is not set)";
}

} // namespace

Result<Library> Library::open(std::span<const char *const> names, std::string_view help) {
  std::string reasons;
  for (const char *name : names) {
    if (void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return Library(handle, pathOf(handle, name));
    if (const char *reason = dlerror())
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
  }
  return errorf("{} was not found in {}: {}\n  {}", fmt::join(names, " or "), searched(), reasons, help);
}

void *Library::address(const char *symbol) {
  void *found = dlsym(handle_, symbol);
  if (!found)
    missing_.push_back(symbol);
  return found;
}

Status Library::complete(std::string_view expected) const {
  if (missing_.empty())
    return Status::ok();
  return errorf("{} lacks {}: it is too old; expected {}", path_, fmt::join(missing_, ", "), expected);
}

} // namespace mgc::cuda
