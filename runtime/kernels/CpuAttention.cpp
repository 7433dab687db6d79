// See CpuAttention.h. Online softmax over key blocks (Milakov and Gimelshein 2018; Dao et al. 2022): a block of
// query rows keeps a running maximum m, sum l and output o, and each key block updates them:
//   m' = max(m, max s);  p = exp(s - m');  l' = l exp(m - m') + sum p;  o' = o exp(m - m') + p v
// They begin at m = -inf, l = 0, o = 0; with a sink at m = sink, l = 1, o = 0: it is a key whose value is 0.
// Backward recomputes p = exp(s - lse) and needs only delta = rowsum(do o):
//   dv += p^T do;  ds = p (do v^T - delta);  dq += ds k;  dk += ds^T q
// A bias is added to scores last, so ds is its gradient: each row sums up its own by buckets, each task those of its rows, and when
// all tasks are done their sums are added in order.
// With a softcap c the scores are s = c tanh(x), x = q k scale / c, and ds is multiplied by 1 - tanh(x)^2.
// A query row is a pair (s, r) of one (b, g): all r share the keys. A task is one block of query rows; what it
// does to one block of keys is in AttentionPanels.h. Here: which blocks meet, and in which order.
//
// Backward, the tasks of one (b, g) add to the same dk and dv. To give equal bits for every thread count they
// take turns at each key block, in order; a task is one block behind the one before it:
//   task 0: k0 k1
//   task 1:    k0 k1 k2
//   task 2:       k0 k1 k2 k3 ...
#include "runtime/kernels/CpuAttention.h"
#include "runtime/base/Rounding.h"

#include "plan/RelativeBuckets.h"
#include "plan/targets/AttentionWorkspace.h"
#include "runtime/base/Bf16.h"
#include "runtime/kernels/AttentionPanels.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <type_traits>

namespace mgc {

namespace {

constexpr int64_t kKeys = kAttentionKeys;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kGreatest = std::numeric_limits<int32_t>::max();
constexpr int64_t kUnlimited = int64_t(1) << 32; // a window that holds all positions
constexpr double kLn2 = 0.693147180559945309417;

struct PositionRange {
  int32_t least = kGreatest, greatest = kLeast;
  void add(int32_t position) {
    least = std::min(least, position);
    greatest = std::max(greatest, position);
  }
};

// One block of rows of one (b, g), of operands of T and results of Out.
template <typename T, typename Out> class AttentionTask {
public:
  // keySums, bias: see AttentionWorkspace. number: of the task, in the order of (head, block).
  AttentionTask(const plan::Attention &attention, const AttentionOperands &operands, const AttentionKernels &kernels,
                const AttentionLane &lane, float *keySums, const AttentionBias &bias, int64_t capacity, int64_t blocks,
                int64_t number);
  void forward();
  // `before` and `mine`: the turns of the block before this one, null for the first, and of this one.
  void backward(AttentionTurn *before, AttentionTurn *mine);

private:
  const plan::Attention &a_;
  const AttentionOperands &x_;
  const AttentionKernels &kernels_;
  const AttentionLane &lane_;
  float *keySums_;
  const AttentionBias &bias_;
  const int64_t number_;
  const plan::AttentionStrides strides_;
  int64_t capacity_, b_, g_, firstRow_, rows_;
  AttentionDropout dropout_;
  AttentionQueries queries_;
  PositionRange rowRange_; // the positions that the rows see
  int32_t keyPositions_[kKeys];

  // The index of a position's group in [s, b, g] or [t, b, g].
  int64_t groupIndex(int64_t position) const { return (position * a_.b + b_) * a_.g + g_; }
  // Index of row i in lse.
  int64_t rowIndex(int64_t i) const {
    const int64_t row = firstRow_ + i;
    return groupIndex(row / a_.r) * a_.r + row % a_.r;
  }
  // Rows of `size` elements; a.d or a.valueSize().
  int64_t rowAt(int64_t i, int64_t size, int64_t groupStride) const {
    const int64_t row = firstRow_ + i;
    return groupIndex(row / a_.r) * groupStride + row % a_.r * size;
  }
  // The rows of a tensor in f32: where they lie, or converted, until the next call.
  void readRows(const void *tensor, int64_t size, int64_t groupStride, const float **rows) const {
    for (int64_t i = 0; i < rows_; ++i) {
      const T *from = static_cast<const T *>(tensor) + rowAt(i, size, groupStride);
      if constexpr (kIsF32) {
        rows[i] = from;
      } else {
        widen(from, size, lane_.converted + i * size);
        rows[i] = lane_.converted + i * size;
      }
    }
  }
  // The rows of a result <- columns, those of row i times factors[i].
  void writeRows(const float *columns, const float *factors, void *tensor, int64_t size, int64_t groupStride) const {
    float *rows[kAttentionRows];
    for (int64_t i = 0; i < rows_; ++i)
      if constexpr (kHasF32Results)
        rows[i] = static_cast<float *>(tensor) + rowAt(i, size, groupStride);
      else
        rows[i] = lane_.converted + i * size;
    kernels_.unpack(columns, factors, rows_, size, rows);
    if constexpr (!kHasF32Results)
      for (int64_t i = 0; i < rows_; ++i)
        narrow(rows[i], size, static_cast<Bf16 *>(tensor) + rowAt(i, size, groupStride));
  }
  static void copyRow(const T *from, int64_t count, float *to) {
    if constexpr (kIsF32)
      std::copy_n(from, count, to);
    else
      widen(from, count, to);
  }
  // Where the gradients of keys from `first` on are summed up: in dk or dv itself or, for bf16, in keySums_, of which
  // dv's part is the second.
  AttentionKeys::Rows keyRows(void *gradient, int64_t groupStride, bool isValue, int64_t first) const {
    if constexpr (kHasF32Results)
      return {static_cast<float *>(gradient) + groupIndex(first) * groupStride, a_.b * a_.g * groupStride};
    const int64_t heads = a_.b * a_.g, head = b_ * a_.g + g_, size = isValue ? a_.valueSize() : a_.d;
    return {keySums_ + (isValue ? heads * a_.t * a_.d : 0) + (head * a_.t + first) * size, size};
  }
  AttentionKeys::Rows dkRows(int64_t first) const { return keyRows(x_.dk, strides_.dk, false, first); }
  AttentionKeys::Rows dvRows(int64_t first) const { return keyRows(x_.dv, strides_.dv, true, first); }
  int64_t keyBlocks() const { return divideUp(a_.t, kKeys); }

  void setDropout();
  void setQueries();
  void setVisible(int64_t i, int64_t at);
  void setBias();
  void sumBiasGradients() const;
  void beginAtSinks();
  AttentionKeys gatherKeys(int64_t block);
  void gatherGradients();
  void clearKeyGradients(int64_t block) const;
  void roundKeyGradients(int64_t block) const;
  int64_t keysUpTo(int64_t block) const { return std::min((block + 1) * kKeys, a_.t); }
  static constexpr bool kIsF32 = std::is_same_v<T, float>, kHasF32Results = std::is_same_v<Out, float>;
};

template <typename T, typename Out>
AttentionTask<T, Out>::AttentionTask(const plan::Attention &attention, const AttentionOperands &operands,
                                     const AttentionKernels &kernels, const AttentionLane &lane, float *keySums,
                                     const AttentionBias &bias, int64_t capacity, int64_t blocks, int64_t number)
    : a_(attention), x_(operands), kernels_(kernels), lane_(lane), keySums_(keySums), bias_(bias), number_(number),
      strides_(attention), capacity_(capacity), b_(number / blocks / attention.g), g_(number / blocks % attention.g),
      firstRow_(number % blocks * capacity), rows_(std::min(capacity, a_.s * a_.r - firstRow_)) {
  setQueries();
  if (a_.hasBias())
    setBias();
  if (a_.dropout > 0)
    setDropout();
}

template <typename T, typename Out> void AttentionTask<T, Out>::setDropout() {
  const PhiloxKey key = dropoutKey(uint64_t(a_.seed.value), a_.site, a_.instance.value);
  dropout_ = {{key[0], key[1]},
              static_cast<uint32_t>(x_.samples[b_]),
              dropoutThreshold(a_.dropout),
              a_.dropout < 1 ? static_cast<float>(1 / (1 - a_.dropout)) : 0.0f};
  queries_.dropout = &dropout_;
}

template <typename T, typename Out> void AttentionTask<T, Out>::setQueries() {
  queries_.count = rows_, queries_.d = a_.d, queries_.w = a_.valueSize();
  std::fill_n(queries_.first, kAttentionRows, kGreatest);
  std::fill_n(queries_.last, kAttentionRows, kLeast);
  std::fill_n(queries_.heads, kAttentionRows, 0);
  std::fill_n(queries_.positions, kAttentionRows, 0);
  std::fill_n(queries_.slopes, kAttentionRows, 0.0f);
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t row = firstRow_ + i;
    setVisible(i, row / a_.r * a_.b + b_);
    const int64_t head = a_.headOffset.value + g_ * a_.groupStride + row % a_.r;
    queries_.heads[i] = static_cast<uint32_t>(head);
    queries_.slopes[i] = a_.slopes.empty() ? 0 : static_cast<float>(a_.slopes[head] / kLn2);
  }
  queries_.cap = static_cast<float>(a_.softcap / kLn2), queries_.hasSlopes = !a_.slopes.empty();
  const float *rows[kAttentionRows];
  readRows(x_.q, a_.d, strides_.q, rows);
  kernels_.pack(rows, rows_, a_.d, static_cast<float>(a_.scale / (a_.softcap > 0 ? a_.softcap : kLn2)), lane_.q);
  queries_.q = lane_.q;
}

template <typename T, typename Out> void AttentionTask<T, Out>::setBias() {
  queries_.buckets = bias_.buckets, queries_.biasReach = static_cast<uint32_t>(a_.biasMaxDistance);
  queries_.biases = bias_.values + g_ * a_.r * a_.biasBuckets, queries_.biasBuckets = a_.biasBuckets;
  std::fill_n(queries_.biasRows, kAttentionRows, 0);
  for (int64_t i = 0; i < rows_; ++i)
    queries_.biasRows[i] = static_cast<int32_t>((firstRow_ + i) % a_.r * a_.biasBuckets);
}

// The positions of the keys that row i sees, whose position is number `at` of [s, b].
template <typename T, typename Out> void AttentionTask<T, Out>::setVisible(int64_t i, int64_t at) {
  const int32_t position = x_.queryPositions[at];
  const int64_t reach = a_.window > 0 ? std::min(a_.window, kUnlimited) : kUnlimited;
  int64_t first = std::max<int64_t>(position - reach + 1, kLeast);
  int64_t last = a_.causal ? position : std::min<int64_t>(position + reach - 1, kGreatest);
  if (a_.documents)
    first = std::max<int64_t>(first, x_.starts[at]);
  if (a_.ends)
    last = std::min<int64_t>(last, int64_t(x_.ends[at]) - 1);
  if (last < kLeast) // it ends before the least of all positions: none is visible, as first is greater
    first = kGreatest, last = kLeast;
  queries_.positions[i] = position;
  queries_.first[i] = static_cast<int32_t>(first), queries_.last[i] = static_cast<int32_t>(last);
  rowRange_.least = std::min(rowRange_.least, queries_.first[i]);
  rowRange_.greatest = std::max(rowRange_.greatest, queries_.last[i]);
}

// Keys of a block up to the last that some query may see; none of a block that no query sees.
template <typename T, typename Out> AttentionKeys AttentionTask<T, Out>::gatherKeys(int64_t block) {
  const int64_t first = block * kKeys;
  AttentionKeys keys;
  PositionRange range;
  for (int64_t i = 0; i < std::min(kKeys, a_.t - first); ++i) {
    const int32_t position = keyPositions_[i] = x_.keyPositions[(first + i) * a_.b + b_];
    range.add(position);
    if (rowRange_.least <= position && position <= rowRange_.greatest)
      keys.count = i + 1;
  }
  for (int64_t i = 0; i < keys.count; ++i) {
    copyRow(static_cast<const T *>(x_.k) + groupIndex(first + i) * strides_.k, a_.d, lane_.k + i * a_.d);
    copyRow(static_cast<const T *>(x_.v) + groupIndex(first + i) * strides_.v, a_.valueSize(),
            lane_.v + i * a_.valueSize());
  }
  keys.k = lane_.k, keys.v = lane_.v;
  keys.positions = keyPositions_;
  keys.least = range.least, keys.greatest = range.greatest;
  keys.scores = lane_.scores, keys.gradients = lane_.gradients;
  if (a_.backward)
    keys.dk = dkRows(first), keys.dv = dvRows(first);
  return keys;
}

template <typename T, typename Out> void AttentionTask<T, Out>::beginAtSinks() {
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t head = g_ * a_.r + (firstRow_ + i) % a_.r;
    queries_.shift[i] = static_cast<float>(toFloat(static_cast<const T *>(x_.sinks)[head]) / kLn2);
    queries_.sum[i] = 1;
  }
}

template <typename T, typename Out> void AttentionTask<T, Out>::forward() {
  std::fill_n(queries_.shift, kAttentionRows, -kInfinity);
  std::fill_n(queries_.sum, kAttentionRows, 0.0f);
  if (a_.sinks)
    beginAtSinks();
  std::fill_n(lane_.o, capacity_ * a_.valueSize(), 0.0f);
  queries_.o = lane_.o;
  for (int64_t block = 0; block < keyBlocks(); ++block)
    if (const AttentionKeys keys = gatherKeys(block); keys.count > 0)
      kernels_.forward(queries_, keys);
  for (int64_t i = 0; i < rows_; ++i) {
    const float sum = queries_.sum[i]; // 0: sees nothing
    x_.lse[rowIndex(i)] = static_cast<float>(queries_.shift[i] * kLn2 + std::log(static_cast<double>(sum)));
    queries_.sum[i] = sum == 0 ? 0 : 1 / sum;
  }
  writeRows(lane_.o, queries_.sum, x_.o, a_.valueSize(), a_.outputElements());
}

// Equal sums for equal rows: in 16 lanes.
template <typename T> float dot(const float *x, const T *y, int64_t count) {
  float lanes[16] = {}, sum = 0;
  const int64_t whole = count - count % 16;
  for (int64_t j = 0; j < whole; j += 16)
    for (int64_t lane = 0; lane < 16; ++lane)
      lanes[lane] += x[j + lane] * toFloat(y[j + lane]);
  for (int64_t j = whole; j < count; ++j)
    sum += x[j] * toFloat(y[j]);
  for (float lane : lanes)
    sum += lane;
  return sum;
}

// [capacity, padded d] <- rows times factor, the rest 0.
void copyRows(const float *const *rows, int64_t count, int64_t capacity, int64_t d, float factor, float *to) {
  const int64_t padded = attentionPadded(d);
  for (int64_t i = 0; i < count; ++i, to += padded) {
    for (int64_t j = 0; j < d; ++j)
      to[j] = rows[i][j] * factor;
    std::fill(to + d, to + padded, 0.0f);
  }
  std::fill_n(to, (capacity - count) * padded, 0.0f);
}

template <typename T, typename Out> void AttentionTask<T, Out>::gatherGradients() {
  const float *q[kAttentionRows], *outputGradient[kAttentionRows];
  const int64_t w = a_.valueSize();
  readRows(x_.q, a_.d, strides_.q, q);
  copyRows(q, rows_, capacity_, a_.d, static_cast<float>(a_.scale), lane_.qRows);
  readRows(x_.outputGradient, w, a_.outputElements(), outputGradient);
  kernels_.pack(outputGradient, rows_, w, 1, lane_.outputGradient);
  copyRows(outputGradient, rows_, capacity_, w, 1, lane_.outputGradientRows);
  std::fill_n(lane_.dq, capacity_ * a_.d, 0.0f);
  std::fill_n(queries_.shift, kAttentionRows, kInfinity); // sees nothing: p = 2^-inf = 0
  std::fill_n(queries_.sum, kAttentionRows, 0.0f);
  for (int64_t i = 0; i < rows_; ++i) {
    const float lse = x_.lse[rowIndex(i)];
    queries_.shift[i] = lse == -kInfinity ? kInfinity : static_cast<float>(lse / kLn2);
    queries_.sum[i] = dot(outputGradient[i], static_cast<const T *>(x_.o) + rowAt(i, w, a_.outputElements()), w);
  }
  queries_.outputGradient = lane_.outputGradient, queries_.dq = lane_.dq;
  queries_.outputGradientRows = lane_.outputGradientRows, queries_.qRows = lane_.qRows;
  queries_.biasSums = lane_.biasSums;
  std::fill_n(lane_.biasSums, capacity_ * a_.biasBuckets, 0.0f);
}

// Sums over the task's rows, for each of their heads.
template <typename T, typename Out> void AttentionTask<T, Out>::sumBiasGradients() const {
  float *to = bias_.sums + number_ * a_.r * a_.biasBuckets;
  for (int64_t inner = 0; inner < a_.r; ++inner)
    for (int64_t bucket = 0; bucket < a_.biasBuckets; ++bucket) {
      double sum = 0;
      for (int64_t i = (inner + a_.r - firstRow_ % a_.r) % a_.r; i < rows_; i += a_.r)
        sum += lane_.biasSums[i * a_.biasBuckets + bucket];
      *to++ = static_cast<float>(sum);
    }
}

template <typename T, typename Out> void AttentionTask<T, Out>::clearKeyGradients(int64_t block) const {
  for (int64_t t = block * kKeys; t < keysUpTo(block); ++t) {
    std::fill_n(dkRows(t).first, a_.d, 0.0f);
    std::fill_n(dvRows(t).first, a_.valueSize(), 0.0f);
  }
}

// Writes the sums, which are complete, to dk and dv.
template <typename T, typename Out> void AttentionTask<T, Out>::roundKeyGradients(int64_t block) const {
  if constexpr (!kHasF32Results)
    for (int64_t t = block * kKeys; t < keysUpTo(block); ++t) {
      narrow(dkRows(t).first, a_.d, static_cast<Out *>(x_.dk) + groupIndex(t) * strides_.dk);
      narrow(dvRows(t).first, a_.valueSize(), static_cast<Out *>(x_.dv) + groupIndex(t) * strides_.dv);
    }
}

// Returns once the turn, if there is one, is past the block. The task before gets there: it began before this one.
void await(const AttentionTurn *turn, int64_t block) {
  for (int32_t at; turn && (at = turn->load(std::memory_order_acquire)) <= block;)
    turn->wait(at, std::memory_order_relaxed);
}

void pass(AttentionTurn *turn) {
  turn->fetch_add(1, std::memory_order_release);
  turn->notify_all();
}

template <typename T, typename Out> void AttentionTask<T, Out>::backward(AttentionTurn *before, AttentionTurn *mine) {
  const bool isLast = firstRow_ + rows_ == a_.s * a_.r; // the last block of this (b, g)
  gatherGradients();
  for (int64_t block = 0; block < keyBlocks(); ++block) {
    const AttentionKeys keys = gatherKeys(block);
    AttentionRanges ranges;
    if (keys.count > 0)
      kernels_.backward(queries_, keys, ranges);
    await(before, block);
    if (!before)
      clearKeyGradients(block);
    if (keys.count > 0)
      kernels_.addKeyGradients(queries_, keys, ranges);
    if (isLast)
      roundKeyGradients(block);
    pass(mine);
  }
  float factors[kAttentionRows];
  std::fill_n(factors, kAttentionRows, static_cast<float>(a_.scale));
  writeRows(lane_.dq, factors, x_.dq, a_.d, strides_.dq);
  if (a_.hasBias())
    sumBiasGradients();
}

// Buckets and values <- what the call says of them.
template <typename T>
void readBias(const plan::Attention &a, const AttentionOperands &operands, const AttentionBias &bias) {
  const int64_t heads = a.g * a.r;
  plan::bucketsOfDistances(a.biasBuckets, a.biasMaxDistance, a.causal,
                           {bias.buckets, size_t(plan::distancesOf(a.biasMaxDistance))});
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t bucket = 0; bucket < a.biasBuckets; ++bucket)
      bias.values[head * a.biasBuckets + bucket] =
          static_cast<float>(toFloat(static_cast<const T *>(operands.bias)[bucket * heads + head]) / kLn2);
}

// dbias <- the sums of all tasks, of `blocks` for each (b, g).
void writeBiasGradients(const plan::Attention &a, const AttentionBias &bias, int64_t blocks, float *dbias) {
  const int64_t heads = a.g * a.r;
  for (int64_t bucket = 0; bucket < a.biasBuckets; ++bucket)
    for (int64_t head = 0; head < heads; ++head) {
      double sum = 0;
      for (int64_t b = 0; b < a.b; ++b)
        for (int64_t block = 0; block < blocks; ++block) {
          const int64_t task = (b * a.g + head / a.r) * blocks + block;
          sum += bias.sums[(task * a.r + head % a.r) * a.biasBuckets + bucket];
        }
      dbias[bucket * heads + head] = static_cast<float>(sum);
    }
}

template <typename T, typename Out>
void runTasks(const plan::Attention &attention, const AttentionOperands &operands, int threads,
              const AttentionKernels &kernels) {
  const AttentionWorkspace workspace(attention);
  const int64_t blocks = static_cast<int64_t>(workspace.blocks());
  const int64_t tasks = static_cast<int64_t>(workspace.heads()) * blocks;
  AttentionTurn *turns = workspace.turns(operands.workspace);
  float *keySums = workspace.keySums(operands.workspace);
  const AttentionBias bias = workspace.bias(operands.workspace);
  if (attention.hasBias())
    readBias<T>(attention, operands, bias);
  for (int64_t i = 0; i < tasks && attention.backward; ++i)
    new (turns + i) AttentionTurn(0);
  parallelFor(threads, workspace.lanes(), tasks, [&](int64_t index, int64_t laneIndex) {
    const AttentionLane lane = workspace.lane(operands.workspace, laneIndex);
    AttentionTask<T, Out> task(attention, operands, kernels, lane, keySums, bias, workspace.rows(), blocks, index);
    if (attention.backward)
      task.backward(index % blocks ? turns + index - 1 : nullptr, turns + index);
    else
      task.forward();
  });
  if (attention.backward && attention.hasBias())
    writeBiasGradients(attention, bias, blocks, operands.dbias);
}

} // namespace

void attention(const plan::Attention &attention, const AttentionOperands &operands, int threads,
               const AttentionKernels &kernels) {
  if (attention.b <= 0 || attention.g <= 0 || attention.d <= 0)
    return;
  const auto run = attention.type != plan::DType::bf16 ? runTasks<float, float>
                   : attention.resultsInF32            ? runTasks<Bf16, float>
                                                       : runTasks<Bf16, Bf16>;
  run(attention, operands, threads, kernels);
}

void attention(const plan::Attention &plan, const AttentionOperands &operands, int threads) {
  attention(plan, operands, threads, *attentionKernels().front());
}

} // namespace mgc
