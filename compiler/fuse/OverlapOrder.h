// Collectives run beside what follows them: an order that gives them a product to run beside.
//
// A collective moves up in front of the nearest product before it that it does not need, with the row ops that make what it
// takes. So the weight's gradient is made while the input's is reduced, and the input that it needs is gathered while
// the other product runs, as Megatron-LM does:
//
//   before:  dgrad         rms_norm  gather  wgrad  reduce_scatter  norm_grad
//   after:   rms_norm  gather  dgrad  reduce_scatter  wgrad  norm_grad
//                      |..............|      |...............|
//
// Collectives keep their order, which all ranks share. One moves past one product at most, and does not draw what
// needs another collective closer to that one. So the collective's operands and results, and the results
// of its row ops, live for one product longer: the bytes that live together there grow by no more than that.
#pragma once

#include "mlir/IR/Block.h"

namespace mgc {

void orderForOverlap(mlir::Block &block);

} // namespace mgc
