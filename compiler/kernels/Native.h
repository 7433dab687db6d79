// The back end of compileKernels: one module of kernels to one native object, objects to one shared object.
#pragma once

#include "compiler/kernels/Compile.h"

namespace mgc::rowgen {

// An x86-64 CPU that LLVM knows.
struct NativeTarget {
  std::string triple, cpu, features;
  static Result<NativeTarget> find(const std::string &cpu);
};

// Thread-safe: makes its own contexts. `object` receives the bytes of the object file; `printed`, if set, the
// MLIR.
Status compileModule(const std::vector<const NamedGraph *> &kernels, const NativeTarget &target,
                     std::string &object, std::string *printed);

// Runs ld.lld. Error: not found, failed, an unresolved symbol.
Status linkSharedObject(const std::vector<std::string> &objects, const std::string &path);

} // namespace mgc::rowgen
