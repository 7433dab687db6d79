// Emitters of f32 elementary functions, for use in the bodies of RowGraph::map. Each takes f32 or vector<n x
// f32> and gives the same type. They need no library at run time, and handle NaN, infinities, zeros and
// subnormals. In a gpu.module, exp and what is made of it are computed by the units that GPUs have for 2^x and 1 / x,
// elsewhere by polynomials and divisions. Error bounds hold over the whole range unless said otherwise; tests check them
// against double.
#pragma once

#include "mlir/IR/Builders.h"
#include <array>
#include <utility>

namespace mgc::rowgen {

// A constant of the type of `like` (f32 or vector of f32), or of its i32 / i1 counterpart.
mlir::Value emitF32(mlir::OpBuilder &builder, mlir::Location loc, double value, mlir::Type like);
mlir::Value emitI32(mlir::OpBuilder &builder, mlir::Location loc, int64_t value, mlir::Type like);

mlir::Value emitExp(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value x); // 2 ulp, 3 on a GPU; subnormal results too
mlir::Value emitLog(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value x); // 2 ulp; log(0) = -inf, x<0: NaN
// 1 / (1 + exp(-x)), relative 4e-7 in both tails; on a GPU 6e-7, and 0 instead of subnormals. 0.5 * (1 + tanh(u)) cancels for
// u < 0: write sigmoid(2 u).
mlir::Value emitSigmoid(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
// log(1 + exp(x)), relative 1e-6 in both tails; on a GPU 0 instead of subnormals.
mlir::Value emitSoftplus(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
// Relative 3e-7; -0 stays -0.
mlir::Value emitTanh(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
// 1 - erf(x). 0.5 * (1 + erf(u)) cancels for u < 0: write 0.5 * erfc(-u). Relative error below 2e-6 where normal.
mlir::Value emitErfc(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
mlir::Value emitSqrt(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);  // exact rounding
mlir::Value emitRsqrt(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x); // 1 / sqrt(x), 1.5 ulp
// Absolute 2e-7 for |x| <= 1e6, NaN beyond 2^22.
mlir::Value emitSin(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
mlir::Value emitCos(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
// {sin, cos} for the price of little more than one.
std::pair<mlir::Value, mlir::Value> emitSinCos(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);

// Philox4x32-10 (Salmon et al., SC 2011; equal to Random123): i32 scalars or vectors of one shape.
std::array<mlir::Value, 4> emitPhilox4x32(mlir::OpBuilder &builder, mlir::Location loc,
                                          std::array<mlir::Value, 4> counter, std::array<mlir::Value, 2> key);

} // namespace mgc::rowgen
