// Attention by the kernels of kernels/attention.cuh.
#include "plan/RelativeBuckets.h"
#include "plan/targets/CudaAttention.h"
#include "runtime/base/Rounding.h"
#include "runtime/device/cuda/AttentionArguments.h"
#include "runtime/device/cuda/AttentionCalls.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace mgc::cuda {

extern const OwnModule attention32Module, attention64Module, attention128Module, attention256Module,
    attentionRowsModule;

namespace {

struct Columns { // the most elements of a head that a module's kernels take
  int64_t most;
  const OwnModule *module;
};
constexpr Columns kColumns[] = {
    {32, &attention32Module}, {64, &attention64Module}, {128, &attention128Module}, {256, &attention256Module}};

static_assert(kAttentionTile == kOwnAttentionRows); // the workspace is laid out in such tiles
constexpr double kLn2 = 0.693147180559945309417;

CudaAttentionDropout dropoutOf(const plan::Attention &attention) {
  if (attention.dropout <= 0)
    return {0, {0, 0}, 1};
  const PhiloxKey key = dropoutKey(static_cast<uint64_t>(attention.seed.value), static_cast<uint64_t>(attention.site),
                                   static_cast<uint64_t>(attention.instance.value));
  return {dropoutThreshold(attention.dropout),
          {key[0], key[1]},
          attention.dropout < 1 ? static_cast<float>(1 / (1 - attention.dropout)) : 0.0f};
}

// All but the addresses.
AttentionArguments argumentsOf(const plan::Attention &attention) {
  const plan::AttentionStrides strides(attention);
  AttentionArguments a = {};
  a.s = attention.s, a.t = attention.t, a.b = attention.b, a.g = attention.g, a.r = attention.r, a.d = attention.d;
  a.w = attention.valueSize();
  a.window = attention.window, a.headOffset = attention.headOffset.value, a.groupStride = attention.groupStride;
  a.q.stride = strides.q, a.k.stride = strides.k, a.v.stride = strides.v;
  a.dq.stride = strides.dq, a.dk.stride = strides.dk, a.dv.stride = strides.dv;
  a.o.stride = a.outputGradient.stride = attention.outputElements();
  a.dropout = dropoutOf(attention);
  a.scale = static_cast<float>(attention.scale);
  a.scoreScale = static_cast<float>(attention.scale / (attention.softcap > 0 ? attention.softcap : kLn2));
  a.cap = static_cast<float>(attention.softcap / kLn2);
  a.bias.count = attention.biasBuckets, a.bias.maxDistance = static_cast<int32_t>(attention.biasMaxDistance);
  a.isCausal = attention.causal;
  a.isBf16 = attention.type == plan::DType::bf16, a.writesBf16 = a.isBf16 && !attention.resultsInF32;
  return a;
}

// Slopes of the call's heads, over ln(2).
std::vector<float> slopesOf(const plan::Attention &a) {
  std::vector<float> slopes;
  if (!a.slopes.empty())
    for (int64_t g = 0; g < a.g; ++g)
      for (int64_t r = 0; r < a.r; ++r)
        slopes.push_back(static_cast<float>(a.slopes[a.headOffset.value + g * a.groupStride + r] / kLn2));
  return slopes;
}

std::vector<int32_t> bucketsOf(const plan::Attention &a) {
  std::vector<int32_t> buckets;
  if (a.hasBias()) {
    buckets.resize(size_t(plan::distancesOf(a.biasMaxDistance)));
    plan::bucketsOfDistances(a.biasBuckets, a.biasMaxDistance, a.causal, buckets);
  }
  return buckets;
}

class OwnAttention : public mgc_attention {
public:
  OwnAttention(const plan::Attention &attention)
      : isBackward_(attention.backward), arguments_(argumentsOf(attention)) {}
  ~OwnAttention() override {
    for (const mgc_address table : {arguments_.slopes, arguments_.bias.buckets})
      if (table)
        release(device_, table);
  }

  Status prepare(mgc_device &device, const plan::Attention &attention) {
    const int64_t workspaceBytes = attention.workspaceBytes;
    const AttentionArguments &a = arguments_;
    heads_ = a.b * a.g;
    const int64_t deltaBytes = isBackward_ ? a.s * heads_ * a.r * static_cast<int64_t>(sizeof(float)) : 0;
    sumsAt_ = roundUp<int64_t>(deltaBytes, sizeof(float) * kAttentionTile);
    const int64_t sumBytes = isBackward_ ? queryBlocks() * a.bias.count * kAttentionTile * int64_t(sizeof(float)) : 0;
    if (const int64_t needed = sumBytes ? sumsAt_ + sumBytes : deltaBytes; workspaceBytes < needed)
      return errorf("attention has {} bytes of workspace; expected are {} or more", workspaceBytes, needed);
    device_ = &device;
    MGC_TRY(keep(slopesOf(attention), arguments_.slopes));
    MGC_TRY(keep(bucketsOf(attention), arguments_.bias.buckets));
    for (const Columns &columns : kColumns)
      if (std::max(a.d, a.w) <= columns.most)
        return findKernels(device, *columns.module);
    return errorf("attention with d = {} and w = {}; possible are 1 to {}", a.d, a.w, std::end(kColumns)[-1].most);
  }

  Status run(mgc_stream &stream, const mgc_attention_operands &operands) override {
    setAddresses(operands);
    const AttentionArguments &a = arguments_;
    if (!isBackward_)
      return start(stream, forward_, queryBlocks(), "attention_forward");
    MGC_TRY(start(stream, delta_, divideUp(a.s * heads_ * a.r, kAttentionDeltaRows), "attention_delta"));
    MGC_TRY(start(stream, queryGradients_, queryBlocks(), "attention_dq"));
    if (biasGradients_)
      MGC_TRY(start(stream, biasGradients_, a.bias.count * a.g * a.r, "attention_dbias"));
    return start(stream, keyGradients_, heads_ * divideUp(a.t, kAttentionTile), "attention_dkdv");
  }

private:
  bool isBackward_;
  AttentionArguments arguments_;
  mgc_device *device_ = nullptr; // the device that has the slopes and buckets
  int64_t heads_ = 0;            // heads of keys: b g
  int64_t sumsAt_ = 0;           // where the workspace has those of the bias: behind delta
  CUfunction forward_ = nullptr, delta_ = nullptr, queryGradients_ = nullptr, keyGradients_ = nullptr,
             biasGradients_ = nullptr; // null without a bias

  int64_t queryBlocks() const { return heads_ * divideUp(arguments_.s * arguments_.r, kAttentionTile); }

  // On the device, until the end of the call's life; nothing of none.
  template <typename T> Status keep(const std::vector<T> &values, mgc_address &to) {
    if (values.empty())
      return Status::ok();
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    MGC_TRY(allocate(device_, bytes, &to));
    return copyInNow(*device_, to, values.data(), bytes);
  }

  Status findKernels(mgc_device &device, const OwnModule &module) {
    const bool hasBias = arguments_.bias.count > 0;
    if (!isBackward_) {
      MGC_SET(forward_, ownKernel(device, module, hasBias ? "attention_forward_bias" : "attention_forward"));
      return Status::ok();
    }
    MGC_ASSIGN(delta, ownKernel(device, attentionRowsModule, "attention_delta"));
    MGC_ASSIGN(queryGradients, ownKernel(device, module, hasBias ? "attention_dq_bias" : "attention_dq"));
    MGC_ASSIGN(keyGradients, ownKernel(device, module, hasBias ? "attention_dkdv_bias" : "attention_dkdv"));
    delta_ = delta, queryGradients_ = queryGradients, keyGradients_ = keyGradients;
    if (hasBias)
      MGC_SET(biasGradients_, ownKernel(device, attentionRowsModule, "attention_dbias"));
    return Status::ok();
  }

  void setAddresses(const mgc_attention_operands &x) {
    AttentionArguments &a = arguments_;
    a.q.address = x.q, a.k.address = x.k, a.v.address = x.v, a.o.address = x.o;
    a.outputGradient.address = x.output_gradient;
    a.dq.address = x.dq, a.dk.address = x.dk, a.dv.address = x.dv;
    a.lse = x.lse, a.delta = x.workspace;
    a.queryPositions = x.query_positions, a.keyPositions = x.key_positions, a.samples = x.samples;
    a.starts = x.starts, a.ends = x.ends, a.sinks.address = x.sinks;
    a.bias.table.address = x.bias, a.bias.gradient = x.dbias;
    a.bias.sums = x.workspace + static_cast<mgc_address>(sumsAt_);
  }

  Status start(mgc_stream &stream, CUfunction kernel, int64_t blocks, const char *name) {
    if (blocks == 0)
      return Status::ok();
    if (blocks > std::numeric_limits<int32_t>::max())
      return errorf("{}: {} needs {} blocks; possible are {}", stream.device->name, name, blocks,
                    std::numeric_limits<int32_t>::max());
    return launchOwn(stream, kernel,
                     {.blocks = {static_cast<uint32_t>(blocks), 1, 1}, .threads = {kAttentionThreads, 1, 1}}, name,
                     arguments_);
  }
};

} // namespace

Result<Attention> makeOwnAttention(mgc_device &device, const plan::Attention &attention) {
  auto made = std::make_unique<OwnAttention>(attention);
  MGC_TRY(made->prepare(device, attention));
  return Attention(std::move(made));
}

} // namespace mgc::cuda
