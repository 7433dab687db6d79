// Attention by cuDNN: a graph for each run of queries whose positions follow each other (plan/targets/CudaAttention.h), on
// copies by ascending positions where the plan's order is another.
#include "plan/targets/CudaAttention.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/AttentionArguments.h"
#include "runtime/device/cuda/AttentionCalls.h"
#include "runtime/device/cuda/CudnnAttentionGraph.h"

#include <utility>

namespace mgc::cuda {

extern const OwnModule attentionOrderModule;

namespace {

struct OrderKernels {
  CUfunction gather, scatter, statistics;
};

Result<OrderKernels> orderKernels(mgc_device &device) {
  MGC_ASSIGN(gather, ownKernel(device, attentionOrderModule, "attention_gather"));
  MGC_ASSIGN(scatter, ownKernel(device, attentionOrderModule, "attention_scatter"));
  MGC_ASSIGN(statistics, ownKernel(device, attentionOrderModule, "attention_statistics"));
  return OrderKernels{gather, scatter, statistics};
}

struct CudnnRun {
  CudaAttentionRun sizes;
  CudnnGraph graph;
};

class CudnnAttention : public mgc_attention {
public:
  CudnnAttention(const plan::Attention &attention, bool deterministic, std::vector<CudnnRun> runs, OrderKernels kernels)
      : a_(attention), layout_(attention, deterministic), runs_(std::move(runs)), kernels_(kernels),
        parts_(attention.t / attention.s) {}

  Status run(mgc_stream &stream, const mgc_attention_operands &x) override {
    for (const mgc_address address : {x.q, x.k, x.v, x.o, x.output_gradient, x.dq, x.dk, x.dv, x.workspace})
      if (address % 16 != 0)
        return errorf("{}: attention's operand at {:#x}; cuDNN takes multiples of 16", stream.device->name, address);
    const Places to = places(x);
    MGC_TRY(gather(stream, x, to));
    int64_t gradientKey = 0; // where a run's keys begin among those of all runs
    for (CudnnRun &run : runs_) {
      MGC_TRY(execute(stream, run, x, to, gradientKey));
      gradientKey += layout_.parts.keyGradients ? run.sizes.keys : 0;
    }
    return scatter(stream, x, to);
  }

private:
  const plan::Attention a_;
  const CudnnAttentionLayout layout_;
  std::vector<CudnnRun> runs_; // one or two
  const OrderKernels kernels_;
  const int64_t parts_; // number of parts of the order; the queries are one of them

  // Operands as the graphs take them, and the rest of the workspace.
  struct Places {
    mgc_address statistics, delta, dqSum, q, k, v, o, outputGradient, dq, dk, dv, rest;
  };
  Places places(const mgc_attention_operands &x) const {
    const CudaAttentionWorkspace &parts = layout_.parts;
    mgc_address next = x.workspace;
    const auto take = [&](int64_t bytes) { return std::exchange(next, next + static_cast<uint64_t>(bytes)); };
    const auto copyOf = [&](mgc_address given, int64_t bytes) { return bytes ? take(bytes) : given; };
    Places to = {};
    to.statistics = take(parts.rows), to.delta = take(parts.delta), to.dqSum = take(parts.dqSum);
    to.k = copyOf(x.k, parts.keys), to.v = copyOf(x.v, parts.values);
    to.q = copyOf(x.q, parts.queries), to.o = copyOf(x.o, parts.outputs);
    to.outputGradient = copyOf(x.output_gradient, parts.outputGradients);
    to.dq = copyOf(x.dq, parts.queryGradients);
    to.dk = copyOf(x.dk, parts.keyGradients), to.dv = copyOf(x.dv, parts.valueGradients);
    to.rest = next;
    return to;
  }

  int64_t groups() const { return a_.b * a_.g; }
  AttentionOrder keyOrder() const { return orderOf(a_.zigzag, a_.t); }
  AttentionOrder queryOrder() const { return orderOf(layout_.parts.queries ? a_.zigzag / parts_ : 1, a_.s); }
  // A contiguous order, of 1, is of no more than one rank in all its parts.
  static AttentionOrder orderOf(int64_t ranks, int64_t positions) {
    return ranks > 1 ? AttentionOrder{ranks, positions / (2 * ranks)} : AttentionOrder{1, positions};
  }

  AttentionRows queryRows(mgc_address address, int64_t stride) const {
    return {{address, stride}, a_.s, groups(), a_.queryElements()};
  }
  AttentionRows outputRows(mgc_address address) const {
    return {{address, a_.outputElements()}, a_.s, groups(), a_.outputElements()};
  }
  AttentionRows keyRows(mgc_address address, int64_t stride) const { return {{address, stride}, a_.t, groups(), a_.d}; }
  AttentionRows valueRows(mgc_address address, int64_t stride) const {
    return {{address, stride}, a_.t, groups(), a_.valueSize()};
  }

  // --- Copies.

  Status gather(mgc_stream &stream, const mgc_attention_operands &x, const Places &to) {
    const plan::AttentionStrides given(a_);
    if (layout_.parts.keys) {
      MGC_TRY(gather(stream, to.k, keyRows(x.k, given.k), keyOrder()));
      MGC_TRY(gather(stream, to.v, valueRows(x.v, given.v), keyOrder()));
    }
    if (layout_.parts.queries)
      MGC_TRY(gather(stream, to.q, queryRows(x.q, given.q), queryOrder()));
    if (!layout_.parts.queryGradients)
      return Status::ok();
    MGC_TRY(gather(stream, to.o, outputRows(x.o), queryOrder()));
    return gather(stream, to.outputGradient, outputRows(x.output_gradient), queryOrder());
  }

  Status scatter(mgc_stream &stream, const mgc_attention_operands &x, const Places &to) {
    const plan::AttentionStrides given(a_);
    if (layout_.parts.queries) {
      const AttentionRows rows = a_.backward ? queryRows(x.dq, given.dq) : outputRows(x.o);
      MGC_TRY(scatter(stream, rows, queryOrder(), {a_.backward ? to.dq : to.o, 0, a_.s}, {}));
    }
    if (!layout_.parts.keyGradients)
      return Status::ok();
    MGC_TRY(scatterKeys(stream, keyRows(x.dk, given.dk), to.dk));
    return scatterKeys(stream, valueRows(x.dv, given.dv), to.dv);
  }

  Status scatterKeys(mgc_stream &stream, const AttentionRows &rows, mgc_address from) {
    AttentionRange ranges[2] = {};
    for (size_t i = 0; i < runs_.size(); ++i) {
      ranges[i] = {from, runs_[i].sizes.firstKey, runs_[i].sizes.keys};
      from += offset(runs_[i].sizes.keys, rows.width);
    }
    return scatter(stream, rows, keyOrder(), ranges[0], ranges[1]);
  }

  Status gather(mgc_stream &stream, mgc_address to, const AttentionRows &rows, const AttentionOrder &order) {
    return launchOwn(stream, kernels_.gather, blocksFor(rows), "attention's copies by position", to, rows, order);
  }
  Status scatter(mgc_stream &stream, const AttentionRows &rows, const AttentionOrder &order,
                 const AttentionRange &first, const AttentionRange &second) {
    return launchOwn(stream, kernels_.scatter, blocksFor(rows), "attention's results by the plan's order", rows, order,
                     first, second);
  }
  static KernelLaunch blocksFor(const AttentionRows &rows) {
    return blocksFor(rows.positions * rows.groups * rows.width / kAttentionVector);
  }
  static KernelLaunch blocksFor(int64_t threads) {
    const auto blocks = static_cast<uint32_t>(divideUp(threads, kAttentionThreads));
    return {.blocks = {blocks, 1, 1}, .threads = {kAttentionThreads, 1, 1}};
  }

  // --- Runs.

  // Bytes to a position; `stride` elements from one group to the next.
  uint64_t offset(int64_t position, int64_t stride) const {
    return static_cast<uint64_t>(2 * position * groups() * stride);
  }

  Status execute(mgc_stream &stream, CudnnRun &run, const mgc_attention_operands &x, const Places &to,
                 int64_t gradientKey) {
    const auto [query, key] = std::pair(run.sizes.query, run.sizes.firstKey);
    const plan::AttentionStrides &strides = layout_.strides;
    const CudnnGraph::Address addresses[] = {
        {idOf(CudnnOperand::q), to.q + offset(query, strides.q)},
        {idOf(CudnnOperand::k), to.k + offset(key, strides.k)},
        {idOf(CudnnOperand::v), to.v + offset(key, strides.v)},
        {idOf(CudnnOperand::o), to.o + offset(query, a_.outputElements())},
        {idOf(CudnnOperand::statistics), to.statistics},
        {idOf(CudnnOperand::outputGradient), to.outputGradient + offset(query, a_.outputElements())},
        {idOf(CudnnOperand::dq), to.dq + offset(query, strides.dq)},
        {idOf(CudnnOperand::dk), to.dk + offset(gradientKey, strides.dk)},
        {idOf(CudnnOperand::dv), to.dv + offset(gradientKey, strides.dv)},
        {idOf(CudnnOperand::delta), to.delta},
        {idOf(CudnnOperand::dqSum), to.dqSum},
    };
    const size_t given = !a_.backward ? 5 : layout_.parts.dqSum ? 11 : 10;
    if (a_.backward)
      MGC_TRY(convertStatistics(stream, run.sizes, to.statistics, x.lse));
    if (layout_.parts.dqSum) // the library adds to it
      MGC_TRY(fill(&stream, to.dqSum, 0, layout_.parts.dqSum));
    MGC_TRY(run.graph.run(stream, std::span(addresses).first(given), to.rest));
    return a_.backward ? Status::ok() : convertStatistics(stream, run.sizes, x.lse, to.statistics);
  }

  Status convertStatistics(mgc_stream &stream, const CudaAttentionRun &run, mgc_address to, mgc_address from) {
    const int64_t heads = groups() * a_.r;
    return launchOwn(stream, kernels_.statistics, blocksFor(run.queries * heads), "attention's statistics", to, from,
                     run.query, run.queries, heads, queryOrder(), int32_t(!a_.backward));
  }
};

} // namespace

Result<Attention> makeCudnnAttention(mgc_device &device, const plan::Attention &attention, int64_t part) {
  MGC_TRY(cudnnTakes(attention)); // before the library is opened
  MGC_ASSIGN(cudnn, Cudnn::of(device));
  std::vector<CudnnRun> runs;
  for (const CudaAttentionRun &run : cudaAttentionRuns(attention, part)) {
    MGC_ASSIGN(graph, makeCudnnGraph(cudnn, attention, run, device.deterministic));
    runs.push_back({run, std::move(graph)});
  }
  MGC_ASSIGN(kernels, orderKernels(device));
  return Attention(std::make_unique<CudnnAttention>(attention, device.deterministic, std::move(runs), kernels));
}

} // namespace mgc::cuda
