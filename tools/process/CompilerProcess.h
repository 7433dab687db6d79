// Requirements of the programs that have LLVM on their process, in addition to Process.h.
#pragma once

#include "tools/process/Process.h"

#include "llvm/Support/ErrorHandling.h"

namespace mgc::tools {

// As prepareProcess(). A compilation takes 50 to 100 MiB in addition to the libraries, hardly more for 400 billion
// parameters.
inline void prepareCompiler(const char *program) {
  constexpr int64_t kLeastMebibytes = 512;
  constexpr int64_t kLeastStackKibibytes = 512; // for recursion in LLVM and MLIR
  prepareProcess(program, kLeastMebibytes);
  verifyStack(kLeastStackKibibytes);
  llvm::install_bad_alloc_error_handler([](void *, const char *cause, bool) { leaveWithoutMemory(cause); });
}

} // namespace mgc::tools
