// Between the order of a plan and that of cuDNN, whose positions ascend: rows of bf16, and lse.
#include "runtime/device/cuda/kernels/attentionMemory.cuh"

using namespace mgc::cuda;

namespace {

// The place of the i-th position: chunks ascend over the ranks' first ones, then descend over their second ones.
__device__ int64_t placeOf(const AttentionOrder &order, int64_t i) {
  if (order.ranks == 1)
    return i;
  const int64_t chunk = i / order.chunk, second = chunk >= order.ranks;
  const int64_t rank = second ? 2 * order.ranks - 1 - chunk : chunk;
  return (2 * rank + second) * order.chunk + i % order.chunk;
}

// A thread's kAttentionVector elements of ascending rows, and where they are in a buffer by the order.
struct Elements {
  int64_t position, inPosition, inBuffer;
  bool exist;
};
__device__ Elements elementsOf(const AttentionRows &rows, const AttentionOrder &order) {
  const int64_t thread = int64_t(blockIdx.x) * kAttentionThreads + threadIdx.x;
  const int64_t perGroup = rows.width / kAttentionVector;
  const int64_t group = thread / perGroup % rows.groups, column = thread % perGroup * kAttentionVector;
  Elements e;
  e.position = thread / perGroup / rows.groups;
  e.exist = e.position < rows.positions;
  e.inPosition = group * rows.width + column;
  e.inBuffer = (placeOf(order, e.position) * rows.groups + group) * rows.tensor.stride + column;
  return e;
}

__device__ void add(float *sum, const AttentionRange &range, const Elements &e, int64_t elementsOfPosition) {
  const int64_t row = e.position - range.first;
  if (row < 0 || row >= range.positions)
    return;
  const uint16_t *from = reinterpret_cast<const uint16_t *>(range.address) + row * elementsOfPosition + e.inPosition;
  for (int i = 0; i < kAttentionVector; ++i)
    sum[i] += __uint_as_float(uint32_t(from[i]) << 16);
}

} // namespace

// Dense ascending rows at `to` <- rows.
extern "C" __global__ void __launch_bounds__(kAttentionThreads)
    attention_gather(uint64_t to, const AttentionRows rows, const AttentionOrder order) {
  const Elements e = elementsOf(rows, order);
  if (e.exist)
    *reinterpret_cast<uint4 *>(to + 2 * (e.position * rows.groups * rows.width + e.inPosition)) =
        *reinterpret_cast<const uint4 *>(rows.tensor.address + 2 * e.inBuffer);
}

// rows <- the sum of the ranges, 0 where there is none.
extern "C" __global__ void __launch_bounds__(kAttentionThreads)
    attention_scatter(const AttentionRows rows, const AttentionOrder order, const AttentionRange first,
                      const AttentionRange second) {
  const Elements e = elementsOf(rows, order);
  if (!e.exist)
    return;
  float sum[kAttentionVector] = {};
  add(sum, first, e, rows.groups * rows.width), add(sum, second, e, rows.groups * rows.width);
  uint16_t *to = reinterpret_cast<uint16_t *>(rows.tensor.address) + e.inBuffer;
  for (int i = 0; i < kAttentionVector; ++i)
    to[i] = roundToBf16(sum[i]);
}

// Between cuDNN's statistics [b, g, r, s], of a run of s queries that begins at `query`, and lse [queries of a part, b, g, r]:
// `to` <- `from`, and `to` is lse where toLse is not 0. A thread an element.
extern "C" __global__ void __launch_bounds__(kAttentionThreads)
    attention_statistics(uint64_t to, uint64_t from, int64_t query, int64_t s, int64_t heads, const AttentionOrder order,
                         int32_t toLse) {
  const int64_t thread = int64_t(blockIdx.x) * kAttentionThreads + threadIdx.x;
  const int64_t head = thread % heads, i = thread / heads;
  const int64_t statistic = head * s + i, lse = placeOf(order, query + i) * heads + head;
  if (i < s)
    reinterpret_cast<float *>(to)[toLse ? lse : statistic] =
        reinterpret_cast<const float *>(from)[toLse ? statistic : lse];
}
