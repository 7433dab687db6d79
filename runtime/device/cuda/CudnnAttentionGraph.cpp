// Tensors are [batch, head, position, d], those of v and o have w for d. Here (b, g) is the batch, r the head of queries, and
// keys have one head that all r share, so that every operand that is part of a larger buffer has strides: a group's begin is
// (position * b g + (b, g)) * stride.
//
//   forward:   s = q k^T scale, hidden ones -inf;  m = max s;  e = exp(s - m);  l = sum e
//              statistics = m + log l;  o = (e / l) v
//   backward:  delta = sum(o do);  p = exp(s - statistics);  dv = sum over heads of p^T do
//              ds = (do v^T - delta) p scale;  dk = sum over heads of ds^T q;  dq = ds k
//
// The operations and their order are those that cuDNN's documentation names; it has kernels for these and no others.
#include "runtime/device/cuda/CudnnAttentionGraph.h"

#include <limits>

namespace mgc::cuda {

CudnnAttentionLayout::CudnnAttentionLayout(const plan::Attention &a, bool deterministic)
    : strides(a), parts(a, deterministic) {
  if (parts.keys)
    strides.k = a.d, strides.v = a.valueSize();
  if (parts.keyGradients)
    strides.dk = a.d, strides.dv = a.valueSize();
  if (parts.queries)
    strides.q = strides.dq = a.queryElements();
}

namespace {

using Tensor = CudnnGraph::Tensor;

class AttentionGraphBuilder {
public:
  AttentionGraphBuilder(CudnnGraph &graph, const plan::Attention &attention, const CudaAttentionRun &run,
                        const plan::AttentionStrides &strides)
      : graph_(graph), a_(attention), run_(run), strides_(strides) {}
  void forward();
  void backward(bool sumsUp);

private:
  CudnnGraph &graph_;
  const plan::Attention &a_;
  const CudaAttentionRun run_;
  const plan::AttentionStrides strides_;
  const int64_t batch_ = a_.b * a_.g, w_ = a_.valueSize();

  CudnnShape rows() const { return {batch_, a_.r, run_.queries, 1}; }
  CudnnShape scores() const { return {batch_, a_.r, run_.queries, run_.keys}; }
  // `size`: elements of a head, d or w.
  Tensor queries(CudnnOperand operand, int64_t size, int64_t stride) {
    return graph_.memory(idOf(operand),
                         {{batch_, a_.r, run_.queries, size}, {stride, size, batch_ * stride, 1}, CUDNN_DATA_BFLOAT16});
  }
  Tensor keys(CudnnOperand operand, int64_t size, int64_t stride) {
    return graph_.memory(idOf(operand),
                         {{batch_, 1, run_.keys, size}, {stride, size, batch_ * stride, 1}, CUDNN_DATA_BFLOAT16});
  }
  // The same memory with rows for columns.
  Tensor keysAcross(CudnnOperand operand, int64_t size, int64_t stride) {
    return graph_.memory(idOf(operand),
                         {{batch_, 1, size, run_.keys}, {stride, size, 1, batch_ * stride}, CUDNN_DATA_BFLOAT16});
  }
  Tensor statistics(CudnnOperand operand) { return graph_.memory(idOf(operand), {rows(), denseStrides(rows())}); }

  Tensor product(const Tensor &a, const Tensor &b) {
    const Tensor to = graph_.between(scores());
    graph_.multiply(a, b, to);
    return to;
  }
  Tensor times(const Tensor &x, double factor) {
    return graph_.apply(CUDNN_POINTWISE_MUL, x, graph_.constant(static_cast<float>(factor)));
  }
  struct Scores {
    Tensor values, insides; // insides: the operand of tanh, only with a softcap
  };
  Scores scoresOf(const Tensor &products);
  Tensor productGradients(const Tensor &gradients, const Scores &scores);
  // The library reads the shift of a query's index as i32 and that of a key's as f32, whatever the types of their tensors are.
  Tensor shiftedQuery(const Tensor &index, int64_t by) {
    if (by == 0)
      return index;
    const Tensor shift = graph_.wholeConstant(static_cast<int32_t>(by));
    const Tensor to = graph_.between(index.layout.shape, CUDNN_DATA_INT32);
    graph_.apply(CUDNN_POINTWISE_ADD, index, &shift, to, nullptr, CUDNN_DATA_INT32);
    return to;
  }
  Tensor shiftedKey(const Tensor &index, int64_t by) {
    return graph_.apply(CUDNN_POINTWISE_ADD, index, graph_.constant(static_cast<float>(by)));
  }
  Tensor hide(const Tensor &scores);
  Tensor hideWhereNot(const Tensor &scores, cudnnPointwiseMode_t compare, const Tensor &left, const Tensor &right);
  Tensor across(const Tensor &weights);
  void sumOverHeads(const Tensor &weights, const Tensor &rows, const Tensor &to);
};

Tensor AttentionGraphBuilder::hideWhereNot(const Tensor &scores, cudnnPointwiseMode_t compare, const Tensor &left,
                                           const Tensor &right) {
  const Tensor visible = graph_.between(scores.layout.shape, CUDNN_DATA_BOOLEAN),
               to = graph_.between(scores.layout.shape);
  graph_.apply(compare, left, &right, visible, nullptr, CUDNN_DATA_BOOLEAN);
  const Tensor hidden = graph_.constant(-std::numeric_limits<float>::infinity());
  graph_.apply(CUDNN_POINTWISE_BINARY_SELECT, scores, &hidden, to, &visible);
  return to;
}

// Visible are keys up to the query's own position, query + offset, or, where attention is not causal, up to window - 1 behind it; with
// a window, keys + window > query + offset. The library knows each of these with one sum alone, on this side.
Tensor AttentionGraphBuilder::hide(const Tensor &scores) {
  if (!a_.causal && (a_.window <= 0 || a_.window >= a_.t))
    return scores;
  const Tensor last = shiftedQuery(graph_.indexAlong(2, scores), run_.offset() + (a_.causal ? 0 : a_.window - 1)),
               key = graph_.indexAlong(3, scores);
  const Tensor upToLast = hideWhereNot(scores, CUDNN_POINTWISE_CMP_GE, last, key);
  if (a_.window <= 0 || a_.window >= run_.keys)
    return upToLast;
  const Tensor query = graph_.indexAlong(2, upToLast);
  const Tensor past = shiftedKey(graph_.indexAlong(3, upToLast), a_.window - run_.offset());
  return hideWhereNot(upToLast, CUDNN_POINTWISE_CMP_GT, past, query);
}

AttentionGraphBuilder::Scores AttentionGraphBuilder::scoresOf(const Tensor &products) {
  if (a_.softcap <= 0)
    return {times(products, a_.scale), {}};
  const Tensor insides = times(products, a_.scale / a_.softcap);
  return {times(graph_.apply(CUDNN_POINTWISE_TANH_FWD, insides), a_.softcap), insides};
}

// The gradients of the matrix products, from those of the scores.
Tensor AttentionGraphBuilder::productGradients(const Tensor &gradients, const Scores &scores) {
  if (a_.softcap <= 0)
    return times(gradients, a_.scale);
  return times(graph_.applyBackward(CUDNN_POINTWISE_TANH_BWD, gradients, scores.insides), a_.scale);
}

void AttentionGraphBuilder::forward() {
  const Tensor q = queries(CudnnOperand::q, a_.d, strides_.q), k = keysAcross(CudnnOperand::k, a_.d, strides_.k);
  const Tensor v = keys(CudnnOperand::v, w_, strides_.v), o = queries(CudnnOperand::o, w_, a_.outputElements());
  const Tensor visible = hide(scoresOf(product(q, k)).values);
  const Tensor maximum = graph_.between(rows()), sum = graph_.between(rows());
  graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, visible, maximum);
  const Tensor power = graph_.apply(CUDNN_POINTWISE_EXP, graph_.apply(CUDNN_POINTWISE_SUB, visible, maximum));
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
  const Tensor logarithm = graph_.apply(CUDNN_POINTWISE_LOG, sum);
  graph_.apply(CUDNN_POINTWISE_ADD, maximum, &logarithm, statistics(CudnnOperand::statistics));
  const Tensor probability = graph_.between(scores(), CUDNN_DATA_BFLOAT16);
  graph_.apply(CUDNN_POINTWISE_DIV, power, &sum, probability);
  graph_.multiply(probability, v, o);
}

// [.., t, s] of [.., s, t], rounded to bf16.
Tensor AttentionGraphBuilder::across(const Tensor &weights) {
  const int64_t matrix = run_.queries * run_.keys;
  const Tensor to = graph_.between(
      {{batch_, a_.r, run_.keys, run_.queries}, {a_.r * matrix, matrix, 1, run_.keys}, CUDNN_DATA_BFLOAT16});
  graph_.reshape(weights, to);
  return to;
}

void AttentionGraphBuilder::sumOverHeads(const Tensor &weights, const Tensor &rows, const Tensor &to) {
  if (a_.r == 1)
    return graph_.multiply(across(weights), rows, to);
  const Tensor ofEach = graph_.between({batch_, a_.r, run_.keys, to.layout.shape[3]}, CUDNN_DATA_BFLOAT16);
  graph_.multiply(across(weights), rows, ofEach);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, ofEach, to);
}

void AttentionGraphBuilder::backward(bool sumsUp) {
  const Tensor q = queries(CudnnOperand::q, a_.d, strides_.q), k = keysAcross(CudnnOperand::k, a_.d, strides_.k);
  const Tensor v = keysAcross(CudnnOperand::v, w_, strides_.v), lse = statistics(CudnnOperand::statistics);
  const Tensor o = queries(CudnnOperand::o, w_, a_.outputElements()),
               outputGradient = queries(CudnnOperand::outputGradient, w_, a_.outputElements());
  const Tensor dq = queries(CudnnOperand::dq, a_.d, strides_.dq);

  const Tensor sum = graph_.between(rows()), delta = statistics(CudnnOperand::delta), one = graph_.constant(1);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, graph_.apply(CUDNN_POINTWISE_MUL, outputGradient, o), sum);
  graph_.apply(CUDNN_POINTWISE_MUL, sum, &one, delta);

  const Scores scores = scoresOf(product(q, k));
  const Tensor exponent = graph_.apply(CUDNN_POINTWISE_SUB, scores.values, lse);
  const Tensor probability = graph_.apply(CUDNN_POINTWISE_EXP, hide(exponent));
  sumOverHeads(probability, outputGradient, keys(CudnnOperand::dv, w_, strides_.dv));

  const Tensor difference = graph_.apply(CUDNN_POINTWISE_SUB, product(outputGradient, v), delta);
  const Tensor gradient = productGradients(graph_.apply(CUDNN_POINTWISE_MUL, difference, probability), scores);
  sumOverHeads(gradient, q, keys(CudnnOperand::dk, a_.d, strides_.dk));

  const Tensor kRows = graph_.between({{batch_, 1, run_.keys, a_.d}, {strides_.k, a_.d, batch_ * strides_.k, 1}});
  graph_.reshape(k, kRows);
  if (!sumsUp)
    return graph_.multiply(gradient, kRows, dq);
  const CudnnShape shape = {batch_, a_.r, run_.queries, a_.d};
  const Tensor dqSum = graph_.memory(idOf(CudnnOperand::dqSum), {shape, denseStrides(shape)});
  graph_.multiply(gradient, kRows, dqSum);
  graph_.apply(CUDNN_POINTWISE_IDENTITY, dqSum, nullptr, dq);
}

} // namespace

Result<CudnnGraph> makeCudnnGraph(std::shared_ptr<Cudnn> cudnn, const plan::Attention &attention,
                                  const CudaAttentionRun &run, bool deterministic) {
  MGC_TRY(cudnnTakes(attention));
  const CudnnAttentionLayout layout(attention, deterministic);
  if (attention.workspaceBytes < layout.parts.bytes())
    return errorf("the plan's workspace of {} bytes is below {}; compile the plan again", attention.workspaceBytes,
                  layout.parts.bytes());
  CudnnGraph graph(std::move(cudnn));
  AttentionGraphBuilder builder(graph, attention, run, layout.strides);
  if (attention.backward)
    builder.backward(!deterministic);
  else
    builder.forward();
  MGC_TRY(graph.choose(attention.workspaceBytes - layout.parts.bytes()));
  return graph;
}

} // namespace mgc::cuda
