// Orders ops so that collectives, which run concurrently with the ops after them, overlap a matrix product.
//
// A collective moves up in front of the nearest product before it that it does not need, with the row ops that make its
// operands. So the weight's gradient is computed while the input's is reduced, and the input that it needs is gathered
// while the other product runs, as Megatron-LM does:
//
//   before:  dgrad         rms_norm  gather  wgrad  reduce_scatter  norm_grad
//   after:   rms_norm  gather  dgrad  reduce_scatter  wgrad  norm_grad
//                      |..............|      |...............|
//
// Collectives keep their order. One moves past one product at most, and does not draw what
// needs another collective closer to that one. So the collective's operands and results, and the results
// of its row ops, live for one product longer: the bytes that live together there grow by no more than that.
//
// An exchange of rows takes longer than any product of its block, and the products of a shared expert need none. So
//
// 1. it passes every product that it does not need, up to the collective before it: in backward those of the shared
//    expert, which stood in front of it. Where it needs a product itself, it and that rise to the first op that
//    reads the collective before it: dx of the experts' rows is made, and goes back, in front of dw
// 2. if it still overlaps no product, products after it that need neither it nor a later exchange are moved next to it,
//    with the ops that they need, except the last of several: in forward the shared expert's first product, so that
//    the second overlaps the exchange back. Collectives that these products need, and that need none of them, come
//    before the exchange: behind it on their stream they would wait for it
//
//   forward   before:  there                    gate up act down  back  s_gate_up s_act s_down  combine
//             after:   there  s_gate_up  s_act  gate up act down  back  s_down  combine
//                      |......................|                   |...........|
//   backward  before:  s_d s_w  dy_there  down_d act_d down_w gate_d  x_there  gate_w up_d up_w  back  combine_d
//             after:   dy_there x_there  s_d s_w  down_d act_d down_w gate_d up_d  back  gate_w up_w  combine_d
//                      |........................|                                  |.............|
//                               |...........................................................|
//
// The result of an exchange lives longer by what it passes, and what dw reads lives until behind dx: rows that came for dw
// down are not kept for that. Products that are drawn live from there on: results of a shared expert, which has a token's
// size, where rows have room for all that may come. Every rank of a stage has the same block, so all have one order of collectives.
#pragma once

#include "mlir/IR/Block.h"

namespace mgc {

void orderForOverlap(mlir::Block &block);

} // namespace mgc
