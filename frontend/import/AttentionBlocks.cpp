// BlockBuilder's part for attention: heads and their norms, rotary angles, what each position sees.
#include "frontend/import/BlockBuilder.h"

#include "dialects/mg/DataKind.h"
#include "frontend/layout/Context.h"
#include "model/Parameters.h"

using namespace mlir;

namespace mgc::frontend {

Value BlockBuilder::heads(Value x, StringRef role, const AttentionDescription &attention, Value cosSin) {
  Value y = linear(x, role);
  if (attention.qkNorm)
    y = headNorm(y, role, *attention.qkNorm);
  y = bounded(y, attention.clip);
  return cosSin ? rotated(y, *attention.rope, cosSin) : y;
}

// Over all heads together the root is of a sum over dimensions that tensor parallelism splits.
Value BlockBuilder::headNorm(Value x, StringRef role, const HeadNorms &norms) {
  const std::string name = normRole(role, norms);
  if (norms.span == NormSpan::head)
    return norm(x, name, norms.norm);
  Norm bare = norms.norm;
  bare.weight = bare.bias = false;
  Value y = norms.span == NormSpan::allHeads ? normOfAllHeads(x, bare) : norm(x, name, bare);
  Value weight = parameter(name + ".weight"), bias = parameter(name + ".bias");
  y = weight ? multiply(y, weight) : y;
  return bias ? add(y, bias) : y;
}

Value BlockBuilder::normOfAllHeads(Value x, const Norm &norm) {
  // Keys of an encoder's sequence have t in the place of s.
  const ArrayRef<StringAttr> names = layoutOf(x).getNames();
  Value squares = sumTo(multiply(x, x), {names[0].getValue(), names[1].getValue()});
  int64_t count = 1;
  for (int64_t size : tensorOf(x).getShape().drop_front(2))
    count *= size;
  Value root = ReciprocalRootOp::create(builder, squares.getType(), scale(squares, 1.0 / double(count)),
                                        builder.getF64FloatAttr(norm.epsilon));
  return multiply(x, root);
}

// Where not all rotates, or not a part that rows of pairs hold, what rotates is a value of its own.
Value BlockBuilder::rotated(Value x, const Rope &rope, Value cosSin) {
  const int64_t size = tensorOf(x).getShape().back();
  const StringRef name = layoutOf(x).getNames().back().getValue();
  const auto rotate = [&](Value value) -> Value {
    const UnitAttr interleaved = rope.interleaved ? builder.getUnitAttr() : UnitAttr();
    return RopeOp::create(builder, value.getType(), value, cosSin, interleaved, UnitAttr());
  };
  if (rope.dim == size || (!rope.interleaved && 2 * size % rope.dim == 0))
    return rotate(x);
  const SmallVector<Value> both = parts(x, {{"u", rope.dim}, {"n", size - rope.dim}});
  return join({rotate(both[0]), both[1]}, name);
}

SmallVector<Value> BlockBuilder::parts(Value whole, ArrayRef<Part> parts) {
  SmallVector<StringRef> names;
  for (StringAttr name : layoutOf(whole).getNames())
    names.push_back(name.getValue());
  const StringAttr along = builder.getStringAttr(names.back());
  SmallVector<int64_t> shape(tensorOf(whole).getShape());
  SmallVector<Type> types;
  for (const auto &[name, size] : parts) {
    names.back() = name, shape.back() = size;
    types.push_back(type(shape, names));
  }
  return llvm::to_vector_of<Value>(PartsOp::create(builder, types, whole, along).getParts());
}

Value BlockBuilder::join(ValueRange parts, StringRef along) {
  SmallVector<StringRef> names;
  for (StringAttr name : layoutOf(parts.front()).getNames())
    names.push_back(name.getValue());
  SmallVector<int64_t> shape(tensorOf(parts.front()).getShape());
  names.back() = along, shape.back() = 0;
  for (Value part : parts)
    shape.back() += tensorOf(part).getShape().back();
  return JoinOp::create(builder, type(shape, names), parts, builder.getStringAttr(along));
}

// The part of keys that rotates is computed once, for all heads.
BlockBuilder::Heads BlockBuilder::latentHeads(Value x, const AttentionDescription &attention, Value cosSin) {
  const LatentAttention &latent = *attention.latent;
  const Part still = {"n", attention.headDim - latent.rotaryDim}, turning = {"u", latent.rotaryDim};
  Value queries = latent.queryRank > 0 ? norm(linear(x, "attn.q_a"), "attn.q_a_norm", latent.norm) : x;
  const SmallVector<Value> latents = parts(linear(x, "attn.kv_a"), {{"l", latent.keyRank}, turning});
  Value keys = norm(latents[0], "attn.kv_a_norm", latent.norm);
  const Module module(*this, "mla_up_proj");
  const SmallVector<Value> ofQueries =
      parts(linear(queries, latent.queryRank > 0 ? "attn.q_b" : "attn.q"), {still, turning});
  const SmallVector<Value> heads = parts(linear(keys, "attn.kv_b"), {still, {"w", latent.valueDim}});
  const ArrayRef<int64_t> sizes = tensorOf(heads[0]).getShape();
  Value key =
      BroadcastOp::create(builder, type({sizes[0], sizes[1], sizes[2], turning.size}, {"s", "b", "g", turning.name}),
                          rotated(latents[1], *attention.rope, cosSin));
  return {join({ofQueries[0], rotated(ofQueries[1], *attention.rope, cosSin)}, "d"), join({heads[0], key}, "d"),
          heads[1]};
}

Value BlockBuilder::angles(const Rope &rope, StringRef name, bool ofQueries) {
  const std::vector<double> inverse = inverseFrequencies(rope, lengthOf(stack));
  SmallVector<float> frequencies(inverse.begin(), inverse.end());
  Value positions = data(positionsRead(layout));
  ArrayRef<int64_t> sizes = tensorOf(positions).getShape();
  RankedTensorType result =
      type({sizes[0], sizes[1], 2 * int64_t(frequencies.size())}, {"s", "b", name}, builder.getF32Type());
  auto op = CosSinOp::create(builder, result, positions, builder.getDenseF32ArrayAttr(frequencies),
                             builder.getF64FloatAttr(rope.scale), FloatAttr(), IntegerAttr());
  if (ofQueries) {
    op.setGrowthAttr(builder.getF64FloatAttr(rope.queryGrowth));
    op.setPeriod(int64_t(rope.scaling.originalPositions));
  }
  return op;
}

Value BlockBuilder::renamed(Value x, StringRef from, StringRef to, StringRef tag) {
  RankedTensorType old = tensorOf(x);
  SmallVector<StringRef> names;
  for (StringAttr name : layoutOf(x).getNames())
    names.push_back(name == from ? to : name.getValue());
  auto op = RenameOp::create(builder, type(old.getShape(), names, old.getElementType()), x, builder.getStringAttr(from),
                             builder.getStringAttr(to));
  setTag(op, tag);
  return op;
}

Value BlockBuilder::called(Value x, StringRef name) {
  const StringRef found = layoutOf(x).getNames().back().getValue();
  return found == name ? x : renamed(x, found, name);
}

void BlockBuilder::setTag(Operation *op, StringRef tag) {
  if (!tag.empty())
    op->setAttr(kTagAttr, builder.getStringAttr(tag));
}

Value BlockBuilder::bounds(StringRef kind, StringRef contextType) {
  return exchangesHeads(contextType) ? renamed(data(("key_" + kind).str()), "t", "s") : data(kind);
}

BlockBuilder::Branch BlockBuilder::attention(Value x, const AttentionDescription &attention, StringRef contextType) {
  const bool isWhole = attention.rope && attention.rope->dim == attention.headDim;
  // Per token: the same for all heads.
  Value cosSin = attention.rope ? angles(*attention.rope, isWhole ? "d" : "u") : Value();
  Value ofQueries =
      attention.rope && attention.rope->queryGrowth > 0 ? angles(*attention.rope, "d", /*ofQueries=*/true) : cosSin;
  const auto asKeys = [&](Value value) { return renamed(value, "s", "t", contextType); };
  Heads all;
  if (attention.latent) {
    const Heads made = latentHeads(x, attention, cosSin);
    all = {made.q, asKeys(made.k), asKeys(made.v)};
  } else {
    all.q = heads(x, "attn.q", attention, ofQueries);
    all.k = asKeys(heads(x, "attn.k", attention, cosSin));
    all.v = asKeys(bounded(linear(x, "attn.v"), attention.clip));
  }
  // A rank has the data of all keys, but of its own queries alone; where its own keys travel, so do their positions.
  const bool hasOthersQueries = exchangesHeads(contextType);
  Value keyPositions =
      readsAllPositions(contextType) ? data("key_positions") : renamed(data("positions"), "s", "t", contextType);
  Value positions = hasOthersQueries ? renamed(data("key_positions"), "t", "s") : data("positions");
  Value starts = layout.resetAttentionMask ? bounds("document_starts", contextType) : Value();
  Value ends = attention.causal ? Value() : bounds("document_ends", contextType);
  return attended(x, all, {positions, keyPositions, starts, ends}, attention, {"attn", "attention"}, contextType);
}

// Every query sees the whole of the encoder's sequence, up to its padding.
BlockBuilder::Branch BlockBuilder::crossAttention(Value x, const AttentionDescription &attention) {
  const Heads all = {heads(x, "cross.q", attention, Value()), heads(encoded, "cross.k", attention, Value()),
                     bounded(linear(encoded, "cross.v"), attention.clip)};
  const Sight sight = {data("positions"), data("encoder.key_positions"), Value(), data("encoder_ends")};
  return attended(x, all, sight, attention, {"cross", "cross"}, "");
}

} // namespace mgc::frontend
