// mg-ring: attention whose keys travel around the ranks of `ring` becomes the steps of the ring.
//
// before:  %o, %lse = mg.attention %q, %k, %v, %positions, %keyPositions {ring = ["cp"]}
// after:   %o0, %lse0 = mg.attention %q, %k, %v, %positions, %keyPositions
//          %kv = mg.join %k, %v along "n"   %kv1 = mg.permute %kv over ["cp"]   %k1, %v1 = mg.parts %kv1 along "n"
//          %p1 = mg.permute %keyPositions over ["cp"]
//          %o1, %lse1 = mg.attention %q, %k1, %v1, %positions, %p1
//          %o, %lse = mg.merge_attention %o0, %lse0, %o1, %lse1
//
// In step i of n rank r has the keys of rank r - i. Backward, the sum of a block's dk and dv begins in step 1, at the
// owner's neighbour, travels with the block, and comes home after n - 1 hops; there the owner's own part is added, which
// is computed while the sum makes its last hop. n = 3, the block of rank 0:
//
//     rank 1, step 1: a = dkv    hop    rank 2, step 2: a += dkv    hop    rank 0: a += its own dkv
//
// Summands are f32 and rounded once, by what adds the last. Permutes stand where their results are used first; mg-fuse
// moves them in front of the step before (OverlapOrder.h).
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"
#include "dialects/mg/ElementType.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_RING
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

RankedTensorType inF32(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(Float32Type::get(type.getContext()));
}

class RingBuilder {
public:
  RingBuilder(Operation *op, ArrayAttr axes, int64_t ranks)
      : builder_(op), loc_(op->getLoc()), axes_(axes), ranks_(ranks) {}

  void lower(AttentionOp op) {
    AttentionOp own = step(op, ownKeys(op));
    Value o = own.getO(), lse = own.getLse();
    Keys keys = ownKeys(op);
    for (int64_t i = 1; i < ranks_; ++i) {
      keys = permuted(keys);
      AttentionOp seen = step(op, keys);
      seen.getSinksMutable().clear(); // they joined the rank's own keys
      const Type type = i == ranks_ - 1 ? op.getO().getType() : o.getType();
      auto merged = MergeAttentionOp::create(builder_, loc_, type, lse.getType(), o, lse, seen.getO(), seen.getLse());
      o = merged.getO(), lse = merged.getLse();
    }
    op.replaceAllUsesWith(ValueRange{o, lse});
    op.erase();
  }

  void lower(AttentionGradOp op) {
    Keys keys = ownKeys(op);
    Value dq, dbias, travelling; // the sum of dk and dv, joined
    for (int64_t i = 1; i < ranks_; ++i) {
      keys = permuted(keys);
      AttentionGradOp seen = step(op, keys);
      dq = dq ? add(dq.getType(), dq, seen.getDq()) : seen.getDq();
      if (Value part = seen.getDbias())
        dbias = dbias ? add(dbias.getType(), dbias, part) : part;
      Value mine = join(seen.getDk(), seen.getDv());
      travelling = travelling ? add(mine.getType(), permuted(travelling), mine) : mine;
    }
    AttentionGradOp own = step(op, ownKeys(op));
    auto home = PartsOp::create(builder_, loc_, TypeRange{own.getDk().getType(), own.getDv().getType()},
                                permuted(travelling), along(own.getDk()));
    SmallVector<Value> sums{add(op.getDq().getType(), dq, own.getDq()),
                            add(op.getDk().getType(), home.getParts()[0], own.getDk()),
                            add(op.getDv().getType(), home.getParts()[1], own.getDv())};
    if (dbias)
      sums.push_back(add(dbias.getType(), dbias, own.getDbias()));
    op.replaceAllUsesWith(sums);
    op.erase();
  }

private:
  struct Keys {
    Value k, v, positions;
    Value joined = {}; // k and v; null: they are apart
  };
  template <typename Op> static Keys ownKeys(Op op) { return {op.getK(), op.getV(), op.getKeyPositions()}; }

  Value permuted(Value value) { return PermuteOp::create(builder_, loc_, value.getType(), value, axes_); }

  // The keys of the rank before.
  Keys permuted(const Keys &keys) {
    Value moved = permuted(keys.joined ? keys.joined : join(keys.k, keys.v));
    auto parts = PartsOp::create(builder_, loc_, TypeRange{keys.k.getType(), keys.v.getType()}, moved, along(keys.k));
    return {parts.getParts()[0], parts.getParts()[1], permuted(keys.positions), moved};
  }

  // The op for these keys alone, with summands as results.
  template <typename Op> Op step(Op op, const Keys &keys) {
    auto made = cast<Op>(builder_.clone(*op));
    made.removeRingAttr();
    made.getKMutable().assign(keys.k);
    made.getVMutable().assign(keys.v);
    made.getKeyPositionsMutable().assign(keys.positions);
    for (Value result : made->getResults())
      result.setType(inF32(result.getType()));
    return made;
  }

  // A sum in its place, so that the memory of what it adds is free for the next step.
  Value add(Type type, Value lhs, Value rhs) {
    return AccumulateOp::create(builder_, loc_, type, ValueRange{lhs, rhs}, builder_.getDenseI64ArrayAttr({1, 1}),
                                builder_.getUnitAttr());
  }

  // The name of the dimension along which two values like this one are joined: n, or n1 .. where it has an n.
  StringAttr along(Value part) {
    ArrayRef<StringAttr> names = layoutOf(part).getNames();
    StringAttr name = builder_.getStringAttr("n");
    for (int64_t i = 1; llvm::is_contained(names, name); ++i)
      name = builder_.getStringAttr("n" + Twine(i));
    return name;
  }

  // A row of one next to the same row of the other; rows of two sizes have dimensions of two names, for which the new
  // one stands.
  Value join(Value first, Value second) {
    RankedTensorType type = tensorOf(first);
    SmallVector<int64_t> shape(type.getShape());
    SmallVector<StringAttr> names(layoutOf(type).getNames());
    if (names == layoutOf(second).getNames()) {
      shape.insert(shape.end() - 1, 2);
      names.insert(names.end() - 1, along(first));
    } else {
      shape.back() += tensorOf(second).getShape().back();
      names.back() = along(first);
    }
    auto joined = RankedTensorType::get(shape, type.getElementType(), LayoutAttr::get(builder_.getContext(), names));
    return JoinOp::create(builder_, loc_, joined, ValueRange{first, second}, along(first));
  }

  OpBuilder builder_;
  Location loc_;
  ArrayAttr axes_;
  const int64_t ranks_;
};

template <typename Op> void lowerAll(func::FuncOp function, MeshAttr mesh) {
  for (Op op : llvm::to_vector(function.getOps<Op>()))
    if (ArrayAttr axes = op.getRingAttr())
      RingBuilder(op, axes, mesh.sizeOf(axes)).lower(op);
}

struct RingPass : mgc::impl::RingBase<RingPass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    FailureOr<MeshAttr> mesh = requireMesh(module);
    if (failed(mesh))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>()) {
      lowerAll<AttentionOp>(function, *mesh);
      lowerAll<AttentionGradOp>(function, *mesh);
    }
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createRingPass() { return std::make_unique<RingPass>(); }
