// The CPUs that row kernels are compiled for.
#pragma once

#include "plan/KernelLevel.h"
#include "runtime/base/Status.h"

namespace mgc::rowgen {

// Kernels use the instructions of a level that every CPU of it has, and are tuned for one.
struct CpuTarget {
  std::string cpu; // an LLVM name
  plan::KernelLevel level = plan::KernelLevel::v3;
  // "native" is this machine. Errors: an unknown CPU, one below x86-64-v3.
  static Result<CpuTarget> find(const std::string &cpu);
};

} // namespace mgc::rowgen
