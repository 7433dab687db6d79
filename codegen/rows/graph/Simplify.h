// LLVM's simplification of a module of kernels before code generation, the same for all targets.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mgc::rowgen {

// The vectors are explicit already: what remains is simplification and hoisting. The kernels run as fast as
// after LLVM's O3 pipeline, which takes ten times as long.
bool simplify(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace mgc::rowgen
