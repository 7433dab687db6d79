// Attention by cuDNN. Its tensors are [batch, head, position, d]. Here (b, g) is the batch, r the head of queries, and keys have
// one head that all r share, so that every operand that is part of a larger buffer has strides: a group's begin is
// (position * b g + (b, g)) * stride.
//
//   forward:   s = q k^T scale, hidden ones -inf;  m = max s;  e = exp(s - m);  l = sum e
//              statistics = m + log l;  o = (e / l) v
//   backward:  delta = sum(o do);  p = exp(s - statistics);  dv = sum over heads of p^T do
//              ds = (do v^T - delta) p scale;  dk = sum over heads of ds^T q;  dq = ds k
//
// The operations and their order are those that cuDNN's documentation names; it has kernels for these and no others.
#include "runtime/device/cuda/CudnnAttention.h"
#include "plan/targets/CudaAttention.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/AttentionArguments.h"
#include "runtime/device/cuda/AttentionCalls.h"

#include <limits>

namespace mgc::cuda {

extern const OwnModule attentionRowsModule;

namespace {

int64_t idOf(CudnnOperand operand) { return static_cast<int64_t>(operand); }

using Tensor = CudnnGraph::Tensor;

class AttentionGraphBuilder {
public:
  AttentionGraphBuilder(CudnnGraph &graph, const mgc_attention_facts &facts)
      : graph_(graph), a_(facts), strides_(facts) {}
  void forward();
  void backward(bool sumsUp);

private:
  CudnnGraph &graph_;
  const mgc_attention_facts &a_;
  const AttentionStrides strides_;
  const int64_t batch_ = a_.b * a_.g;

  CudnnShape rows() const { return {batch_, a_.r, a_.s, 1}; }
  CudnnShape scores() const { return {batch_, a_.r, a_.s, a_.t}; }
  Tensor queries(CudnnOperand operand, int64_t stride) {
    return graph_.memory(
        idOf(operand), {{batch_, a_.r, a_.s, a_.d}, {stride, a_.d, batch_ * stride, 1}, CUDNN_DATA_BFLOAT16});
  }
  Tensor keys(CudnnOperand operand, int64_t stride) {
    return graph_.memory(idOf(operand),
                         {{batch_, 1, a_.t, a_.d}, {stride, a_.d, batch_ * stride, 1}, CUDNN_DATA_BFLOAT16});
  }
  // The same memory with rows for columns.
  Tensor keysAcross(CudnnOperand operand, int64_t stride) {
    return graph_.memory(idOf(operand),
                         {{batch_, 1, a_.d, a_.t}, {stride, a_.d, 1, batch_ * stride}, CUDNN_DATA_BFLOAT16});
  }
  Tensor statistics(CudnnOperand operand) {
    return graph_.memory(idOf(operand), {rows(), denseStrides(rows())});
  }

  Tensor product(const Tensor &a, const Tensor &b) {
    const Tensor to = graph_.between(scores());
    graph_.multiply(a, b, to);
    return to;
  }
  Tensor scale(const Tensor &x) {
    return graph_.apply(CUDNN_POINTWISE_MUL, x, graph_.constant(static_cast<float>(a_.scale)));
  }
  Tensor hide(const Tensor &scores);
  Tensor hideWhereNot(const Tensor &scores, cudnnPointwiseMode_t compare, const Tensor &left,
                      const Tensor &right);
  Tensor across(const Tensor &weights);
  void sumOverHeads(const Tensor &weights, const Tensor &rows, const Tensor &to);
};

Tensor AttentionGraphBuilder::hideWhereNot(const Tensor &scores, cudnnPointwiseMode_t compare,
                                           const Tensor &left, const Tensor &right) {
  const Tensor visible = graph_.between(scores.layout.shape, CUDNN_DATA_BOOLEAN),
               to = graph_.between(scores.layout.shape);
  graph_.apply(compare, left, &right, visible, nullptr, CUDNN_DATA_BOOLEAN);
  const Tensor hidden = graph_.constant(-std::numeric_limits<float>::infinity());
  graph_.apply(CUDNN_POINTWISE_BINARY_SELECT, scores, &hidden, to, &visible);
  return to;
}

// Visible are keys up to the query's own position and, with a window, keys + window > query.
Tensor AttentionGraphBuilder::hide(const Tensor &scores) {
  const Tensor query = graph_.indexAlong(2, scores), key = graph_.indexAlong(3, scores);
  const Tensor causal = hideWhereNot(scores, CUDNN_POINTWISE_CMP_GE, query, key);
  if (a_.window <= 0 || a_.window >= a_.t)
    return causal;
  const Tensor again = graph_.indexAlong(2, causal), keyAgain = graph_.indexAlong(3, causal);
  const Tensor past =
      graph_.apply(CUDNN_POINTWISE_ADD, keyAgain, graph_.constant(static_cast<float>(a_.window)));
  return hideWhereNot(causal, CUDNN_POINTWISE_CMP_GT, past, again);
}

void AttentionGraphBuilder::forward() {
  const Tensor q = queries(CudnnOperand::q, strides_.q), k = keysAcross(CudnnOperand::k, strides_.k);
  const Tensor v = keys(CudnnOperand::v, strides_.v), o = queries(CudnnOperand::o, a_.r * a_.d);
  const Tensor visible = hide(scale(product(q, k)));
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
  const int64_t matrix = a_.s * a_.t;
  const Tensor to =
      graph_.between({{batch_, a_.r, a_.t, a_.s}, {a_.r * matrix, matrix, 1, a_.t}, CUDNN_DATA_BFLOAT16});
  graph_.reshape(weights, to);
  return to;
}

void AttentionGraphBuilder::sumOverHeads(const Tensor &weights, const Tensor &rows, const Tensor &to) {
  if (a_.r == 1)
    return graph_.multiply(across(weights), rows, to);
  const Tensor ofEach = graph_.between({batch_, a_.r, a_.t, a_.d}, CUDNN_DATA_BFLOAT16);
  graph_.multiply(across(weights), rows, ofEach);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, ofEach, to);
}

void AttentionGraphBuilder::backward(bool sumsUp) {
  const int64_t dense = a_.r * a_.d;
  const Tensor q = queries(CudnnOperand::q, strides_.q), k = keysAcross(CudnnOperand::k, strides_.k);
  const Tensor v = keysAcross(CudnnOperand::v, strides_.v), lse = statistics(CudnnOperand::statistics);
  const Tensor o = queries(CudnnOperand::o, dense),
               outputGradient = queries(CudnnOperand::outputGradient, dense);
  const Tensor dq = queries(CudnnOperand::dq, strides_.dq);

  const Tensor sum = graph_.between(rows()), delta = statistics(CudnnOperand::delta),
               one = graph_.constant(1);
  graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, graph_.apply(CUDNN_POINTWISE_MUL, outputGradient, o), sum);
  graph_.apply(CUDNN_POINTWISE_MUL, sum, &one, delta);

  const Tensor exponent = graph_.apply(CUDNN_POINTWISE_SUB, scale(product(q, k)), lse);
  const Tensor probability = graph_.apply(CUDNN_POINTWISE_EXP, hide(exponent));
  sumOverHeads(probability, outputGradient, keys(CudnnOperand::dv, strides_.dv));

  const Tensor difference = graph_.apply(CUDNN_POINTWISE_SUB, product(outputGradient, v), delta);
  const Tensor gradient = scale(graph_.apply(CUDNN_POINTWISE_MUL, difference, probability));
  sumOverHeads(gradient, q, keys(CudnnOperand::dk, strides_.dk));

  const Tensor kRows = graph_.between({{batch_, 1, a_.t, a_.d}, {strides_.k, a_.d, batch_ * strides_.k, 1}});
  graph_.reshape(k, kRows);
  if (!sumsUp)
    return graph_.multiply(gradient, kRows, dq);
  const CudnnShape shape = {batch_, a_.r, a_.s, a_.d};
  const Tensor dqSum = graph_.memory(idOf(CudnnOperand::dqSum), {shape, denseStrides(shape)});
  graph_.multiply(gradient, kRows, dqSum);
  graph_.apply(CUDNN_POINTWISE_IDENTITY, dqSum, nullptr, dq);
}

} // namespace

Result<CudnnGraph> makeCudnnGraph(std::shared_ptr<Cudnn> cudnn, const mgc_attention_facts &facts,
                                  bool deterministic) {
  MGC_TRY(cudnnTakes(planOf(facts)));
  CudnnGraph graph(std::move(cudnn));
  AttentionGraphBuilder builder(graph, facts);
  if (facts.backward)
    builder.backward(!deterministic);
  else
    builder.forward();
  const CudaAttentionWorkspace parts(planOf(facts), deterministic);
  MGC_TRY(graph.choose(facts.workspace_bytes - parts.rows - parts.delta - parts.dqSum));
  return graph;
}

namespace {

class CudnnAttention : public mgc_attention {
public:
  CudnnAttention(const mgc_attention_facts &facts, CudnnGraph graph, bool deterministic, CUfunction convert)
      : facts_(facts), graph_(std::move(graph)), parts_(planOf(facts), deterministic), convert_(convert) {}

  Status run(mgc_stream &stream, const mgc_attention_operands &x) override {
    for (const mgc_address address : {x.q, x.k, x.v, x.o, x.output_gradient, x.dq, x.dk, x.dv})
      if (address % 16 != 0)
        return errorf("{}: attention's operand at {:#x}; cuDNN takes multiples of 16", stream.device->name,
                      address);
    if (facts_.backward)
      MGC_TRY(convertStatistics(stream, x.workspace, x.lse));
    const mgc_address delta = x.workspace + static_cast<uint64_t>(parts_.rows);
    const mgc_address dqSum = delta + static_cast<uint64_t>(parts_.delta);
    const CudnnGraph::Address addresses[] = {
        {idOf(CudnnOperand::q), x.q},
        {idOf(CudnnOperand::k), x.k},
        {idOf(CudnnOperand::v), x.v},
        {idOf(CudnnOperand::o), x.o},
        {idOf(CudnnOperand::statistics), x.workspace},
        {idOf(CudnnOperand::outputGradient), x.output_gradient},
        {idOf(CudnnOperand::dq), x.dq},
        {idOf(CudnnOperand::dk), x.dk},
        {idOf(CudnnOperand::dv), x.dv},
        {idOf(CudnnOperand::delta), delta},
        {idOf(CudnnOperand::dqSum), dqSum},
    };
    const size_t given = !facts_.backward ? 5 : parts_.dqSum ? 11 : 10;
    MGC_TRY(
        graph_.run(stream, std::span(addresses).first(given), dqSum + static_cast<uint64_t>(parts_.dqSum)));
    return facts_.backward ? Status::ok() : convertStatistics(stream, x.lse, x.workspace);
  }

private:
  const mgc_attention_facts facts_;
  CudnnGraph graph_;
  const CudaAttentionWorkspace parts_;
  const CUfunction convert_; // between the orders of lse and of statistics

  Status convertStatistics(mgc_stream &stream, mgc_address to, mgc_address from) {
    const int64_t heads = facts_.b * facts_.g * facts_.r, rows = facts_.s * heads;
    const auto blocks = static_cast<uint32_t>(divideUp(rows, kAttentionThreads));
    return launchOwn(stream, convert_, {.blocks = {blocks, 1, 1}, .threads = {kAttentionThreads, 1, 1}},
                     "attention's statistics", to, from, facts_.s, heads);
  }
};

} // namespace

Result<Attention> makeCudnnAttention(mgc_device &device, const mgc_attention_facts &facts) {
  MGC_TRY(cudnnTakes(planOf(facts))); // before the library is opened
  MGC_ASSIGN(cudnn, Cudnn::of(device));
  MGC_ASSIGN(graph, makeCudnnGraph(cudnn, facts, device.deterministic));
  MGC_ASSIGN(convert,
             ownKernel(device, attentionRowsModule,
                       facts.backward ? "attention_statistics_from_lse" : "attention_lse_from_statistics"));
  return Attention(std::make_unique<CudnnAttention>(facts, std::move(graph), device.deterministic, convert));
}

} // namespace mgc::cuda
