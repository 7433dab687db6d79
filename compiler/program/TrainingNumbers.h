// mg.training and mg.mesh say sizes that the program has too. Explain, the runtime and the plan read them there, so they must be
// the program's own.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Verifies, in every form, the numbers that mg.training has: data are sequence_length long and of micro_batch_size *
// (ranks along dp) sequences; global_batch_size is that times microbatches; losses count vocabulary columns.
mlir::LogicalResult verifyTrainingNumbers(mlir::ModuleOp module);

} // namespace mgc
