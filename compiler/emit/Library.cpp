// See Library.h.
#include "compiler/emit/Library.h"

#include "dialects/mg/RowEmitter.h"
#include "runtime/base/Philox.h"
#include "runtime/kernels/Attention.h"

using namespace mlir;

namespace mgc {

plan::Gemm gemmOf(EinsumOp op) {
  EinsumOp::GemmShape shape = *op.getGemmShape();
  plan::Gemm gemm;
  gemm.m = shape.m, gemm.n = shape.n, gemm.k = shape.k;
  gemm.transposeA = shape.transposeLhs, gemm.transposeB = shape.transposeRhs;
  return gemm;
}

// The facts that forward and backward share; both ops have the same accessors.
template <typename Op> static plan::Attention describe(Op op, bool backward) {
  plan::Attention attention;
  attention.backward = backward;
  ArrayRef<int64_t> q = tensorOf(op.getQ()).getShape();
  attention.s = q[0], attention.b = q[1], attention.g = q[2], attention.r = q[3], attention.d = q[4];
  attention.t = tensorOf(op.getK()).getDimSize(0);
  attention.scale = op.getScale().convertToDouble();
  attention.window = op.getWindow();
  attention.dropout = op.getDropout().convertToDouble();
  if (attention.dropout > 0)
    attention.site = int64_t(hashName({op.getSite().data(), op.getSite().size()}));
  attention.seed.kind = plan::Scalar::Kind::seed;
  attention.instance.kind = plan::Scalar::Kind::instance;
  attention.groupStride = op.getQueriesPerGroup();
  auto names = layoutOf(op.getQ()).getNames();
  DictionaryAttr coordinates = op.getCoordinatesAttr();
  auto addTerm = [&](StringAttr name, int64_t scale) {
    if (auto axes = coordinates ? coordinates.template getAs<ArrayAttr>(name) : ArrayAttr();
        axes && !axes.empty())
      attention.headOffset.terms.push_back({axesOf(axes), scale});
  };
  addTerm(names[2], attention.g * attention.groupStride);
  addTerm(names[3], attention.r);
  attention.workspaceBytes = attentionWorkspaceBytes(attention);
  return attention;
}

plan::Attention attentionOf(Operation *op) {
  if (auto forward = dyn_cast<AttentionOp>(op))
    return describe(forward, false);
  return describe(cast<AttentionGradOp>(op), true);
}

int64_t workspaceBytes(Operation *op) {
  return isa<AttentionOp, AttentionGradOp>(op) ? attentionOf(op).workspaceBytes : 0;
}

} // namespace mgc
