// A plan's folder, its bundle: which files may be in it.
#pragma once

#include "plan/Plan.h"

#include <algorithm>
#include <filesystem>

namespace mgc::plan {

// Whether the file is in the bundle: relative, without "..". Another one is neither read nor removed with the bundle.
inline bool isInBundle(const KernelFile &kernels) {
  const std::filesystem::path file = kernels.path;
  return !file.empty() && file.is_relative() && std::ranges::find(file, "..") == file.end();
}

} // namespace mgc::plan
