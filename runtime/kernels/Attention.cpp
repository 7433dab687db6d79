// See Attention.h. Online softmax over key blocks (Milakov and Gimelshein 2018; Dao et al. 2022): a block of
// query rows keeps a running maximum m, sum l and output o, and each key block updates them:
//   m' = max(m, max s);  p = exp(s - m');  l' = l exp(m - m') + sum p;  o' = o exp(m - m') + p v
// Backward recomputes p = exp(s - lse) and needs only delta = rowsum(do o):
//   dv += p^T do;  ds = p (do v^T - delta);  dq += ds k;  dk += ds^T q
// A query row is a pair (s, r) of one (b, g): all r share the keys. A task is one block of query rows; what it
// does to one block of keys is in AttentionPanels.h. Here: which blocks meet, and in which order.
//
// Backward, the tasks of one (b, g) add to the same dk and dv. To give equal bits for every thread count they
// take turns at each key block, in order; a task is one block behind the one before it:
//   task 0: k0 k1
//   task 1:    k0 k1 k2
//   task 2:       k0 k1 k2 k3 ...
#include "runtime/kernels/Attention.h"

#include "runtime/kernels/AttentionPanels.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>

namespace mgc {

namespace {

constexpr int64_t kRows = kAttentionRows, kKeys = kAttentionKeys;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(),
                  kGreatest = std::numeric_limits<int32_t>::max();
constexpr double kLn2 = 0.693147180559945309417;

struct Range { // of positions
  int32_t least = kGreatest, greatest = kLeast;
  void add(int32_t position) {
    least = std::min(least, position);
    greatest = std::max(greatest, position);
  }
};

// Working memory of one lane. All parts start on 64 bytes.
struct Lane {
  float *q, *o, *outputGradient, *dq; // columns [d, kRows]
  float *qRows, *outputGradientRows;  // [kRows, padded d]
  float *k, *v;                       // [kKeys, d]
  float *scores, *gradients;          // [kKeys, kRows]
  int32_t *keyPositions;              // [t] of this b
  Range *keyRanges;                   // [blocks of t]
};

// How far the tasks of backward are: the key block that each works on. [blocks of rows, b, g]
using Turn = std::atomic<int32_t>;

// Sums up the parts of a workspace, or hands them out when there is a base.
class Layout {
public:
  explicit Layout(char *base) : base_(base) {}
  template <typename T> void add(T *&pointer, __int128 count) {
    pointer = base_ ? reinterpret_cast<T *>(base_ + static_cast<int64_t>(bytes_)) : nullptr;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + plan::kAlignment - 1) / plan::kAlignment *
              plan::kAlignment;
  }
  __int128 bytes() const { return bytes_; }

private:
  char *base_;
  __int128 bytes_ = 0;
};

__int128 layOut(const plan::Attention &attention, char *base, Lane &lane) {
  Layout layout(base);
  const bool backward = attention.backward;
  const __int128 d = attention.d, rows = backward ? kRows : 0;
  layout.add(lane.q, kRows * d);
  layout.add(lane.k, kKeys * d);
  layout.add(lane.v, kKeys * d);
  layout.add(lane.scores, kKeys * (backward ? kRows : kAttentionWidest));
  layout.add(lane.keyPositions, attention.t);
  layout.add(lane.keyRanges, (attention.t + static_cast<__int128>(kKeys) - 1) / kKeys);
  layout.add(lane.o, backward ? 0 : kRows * d);
  layout.add(lane.outputGradient, rows * d);
  layout.add(lane.dq, rows * d);
  layout.add(lane.qRows, rows * attentionPadded(d));
  layout.add(lane.outputGradientRows, rows * attentionPadded(d));
  layout.add(lane.gradients, rows * kKeys);
  return layout.bytes();
}

bool isEmpty(const plan::Attention &attention) {
  return attention.b <= 0 || attention.g <= 0 || attention.d <= 0;
}

__int128 heads(const plan::Attention &attention) { return static_cast<__int128>(attention.b) * attention.g; }

// Of the query rows of one (b, g); at least one, which sees to dk and dv when there is no query.
__int128 blocks(const plan::Attention &attention) {
  const __int128 rows = static_cast<__int128>(attention.s) * attention.r;
  return std::max<__int128>((rows + kRows - 1) / kRows, 1);
}

int64_t lanes(const plan::Attention &attention) {
  const auto few = [](__int128 value) { return std::min<__int128>(value, kAttentionLanes); };
  return static_cast<int64_t>(few(few(heads(attention)) * few(blocks(attention))));
}

__int128 layOut(const plan::Attention &attention, char *base, Turn *&turns) {
  Layout layout(base);
  layout.add(turns, attention.backward ? heads(attention) * blocks(attention) : 0);
  return layout.bytes();
}

// One block of rows of one (b, g).
class Task {
public:
  Task(const plan::Attention &attention, const AttentionOperands &operands, const AttentionScalars &scalars,
       const AttentionKernels &kernels, int64_t head, int64_t firstRow, const Lane &lane);
  void forward();
  // `before` and `mine`: the turns of the block before this one, null for the first, and of this one.
  void backward(Turn *before, Turn *mine);

private:
  const plan::Attention &a_;
  const AttentionOperands &x_;
  const AttentionKernels &kernels_;
  const Lane &lane_;
  int64_t b_, g_, firstRow_, rows_;
  AttentionDropout dropout_;
  AttentionQueries queries_;
  Range rowRange_;

  // Index of row i in lse; times d, in q.
  int64_t rowIndex(int64_t i) const {
    const int64_t row = firstRow_ + i;
    return ((row / a_.r * a_.b + b_) * a_.g + g_) * a_.r + row % a_.r;
  }
  template <typename T> void rowsOf(T *tensor, T **rows) const {
    for (int64_t i = 0; i < rows_; ++i)
      rows[i] = tensor + rowIndex(i) * a_.d;
  }
  int64_t keyStride() const { return a_.b * a_.g * a_.d; }
  int64_t keyOffset(int64_t t) const { return t * keyStride() + (b_ * a_.g + g_) * a_.d; }
  int64_t keyBlocks() const { return (a_.t + kKeys - 1) / kKeys; }

  void setDropout(const AttentionScalars &scalars);
  void setQueries(const AttentionScalars &scalars);
  void gatherKeyPositions();
  AttentionKeys gatherKeys(int64_t block) const;
  void gatherGradients();
  void clearKeyGradients(int64_t block) const;
};

Task::Task(const plan::Attention &attention, const AttentionOperands &operands,
           const AttentionScalars &scalars, const AttentionKernels &kernels, int64_t head, int64_t firstRow,
           const Lane &lane)
    : a_(attention), x_(operands), kernels_(kernels), lane_(lane), b_(head / attention.g),
      g_(head % attention.g), firstRow_(firstRow), rows_(std::min(kRows, a_.s * a_.r - firstRow)) {
  gatherKeyPositions();
  setQueries(scalars);
  if (a_.dropout > 0)
    setDropout(scalars);
}

void Task::setDropout(const AttentionScalars &scalars) {
  const PhiloxKey key = dropoutKey(scalars.seed, a_.site, scalars.instance);
  dropout_ = {{key[0], key[1]},
              static_cast<uint32_t>(x_.samples[b_]),
              dropoutThreshold(a_.dropout),
              a_.dropout < 1 ? static_cast<float>(1 / (1 - a_.dropout)) : 0.0f};
  queries_.dropout = &dropout_;
}

void Task::setQueries(const AttentionScalars &scalars) {
  queries_.count = rows_, queries_.d = a_.d;
  std::fill_n(queries_.first, kRows, kGreatest);
  std::fill_n(queries_.last, kRows, kLeast);
  std::fill_n(queries_.heads, kRows, 0);
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t row = firstRow_ + i, position = x_.queryPositions[row / a_.r * a_.b + b_];
    const bool windowed = a_.window > 0 && a_.window <= position - kLeast;
    queries_.first[i] = static_cast<int32_t>(windowed ? position - a_.window + 1 : kLeast);
    queries_.last[i] = static_cast<int32_t>(position);
    queries_.heads[i] = static_cast<uint32_t>(scalars.headOffset + g_ * a_.groupStride + row % a_.r);
    rowRange_.least = std::min(rowRange_.least, queries_.first[i]);
    rowRange_.greatest = std::max(rowRange_.greatest, queries_.last[i]);
  }
  const float *rows[kRows];
  rowsOf(x_.q, rows);
  kernels_.pack(rows, rows_, a_.d, static_cast<float>(a_.scale / kLn2), lane_.q);
  queries_.q = lane_.q;
}

void Task::gatherKeyPositions() {
  for (int64_t first = 0; first < a_.t; first += kKeys) {
    Range range;
    for (int64_t t = first; t < std::min(first + kKeys, a_.t); ++t)
      range.add(lane_.keyPositions[t] = x_.keyPositions[t * a_.b + b_]);
    lane_.keyRanges[first / kKeys] = range;
  }
}

// Keys of a block up to the last that some query may see; none of a block that no query sees.
AttentionKeys Task::gatherKeys(int64_t block) const {
  const int64_t first = block * kKeys;
  const auto visible = [&](int32_t position) {
    return rowRange_.least <= position && position <= rowRange_.greatest;
  };
  const Range &range = lane_.keyRanges[block];
  AttentionKeys keys;
  if (range.least > rowRange_.greatest || range.greatest < rowRange_.least)
    return keys;
  keys.count = std::min(kKeys, a_.t - first);
  while (keys.count > 0 && !visible(lane_.keyPositions[first + keys.count - 1]))
    --keys.count;
  for (int64_t i = 0; i < keys.count; ++i) {
    std::copy_n(x_.k + keyOffset(first + i), a_.d, lane_.k + i * a_.d);
    std::copy_n(x_.v + keyOffset(first + i), a_.d, lane_.v + i * a_.d);
  }
  keys.k = lane_.k, keys.v = lane_.v;
  keys.positions = lane_.keyPositions + first;
  keys.least = range.least, keys.greatest = range.greatest;
  keys.scores = lane_.scores, keys.gradients = lane_.gradients;
  if (a_.backward)
    keys.dk = x_.dk + keyOffset(first), keys.dv = x_.dv + keyOffset(first), keys.stride = keyStride();
  return keys;
}

void Task::forward() {
  std::fill_n(queries_.shift, kRows, -kInfinity);
  std::fill_n(queries_.sum, kRows, 0.0f);
  std::fill_n(lane_.o, kRows * a_.d, 0.0f);
  queries_.o = lane_.o;
  for (int64_t block = 0; block < keyBlocks(); ++block)
    if (const AttentionKeys keys = gatherKeys(block); keys.count > 0)
      kernels_.forward(queries_, keys);
  for (int64_t i = 0; i < rows_; ++i) {
    const float sum = queries_.sum[i]; // 0: sees nothing
    x_.lse[rowIndex(i)] = static_cast<float>(queries_.shift[i] * kLn2 + std::log(static_cast<double>(sum)));
    queries_.sum[i] = sum == 0 ? 0 : 1 / sum;
  }
  float *rows[kRows];
  rowsOf(x_.o, rows);
  kernels_.unpack(lane_.o, queries_.sum, rows_, a_.d, rows);
}

// Equal sums for equal rows: in 16 lanes.
float dot(const float *x, const float *y, int64_t count) {
  float lanes[16] = {}, sum = 0;
  const int64_t whole = count - count % 16;
  for (int64_t j = 0; j < whole; j += 16)
    for (int64_t lane = 0; lane < 16; ++lane)
      lanes[lane] += x[j + lane] * y[j + lane];
  for (int64_t j = whole; j < count; ++j)
    sum += x[j] * y[j];
  for (float lane : lanes)
    sum += lane;
  return sum;
}

// [kRows, padded d] <- rows times factor, the rest 0.
void copyRows(const float *const *rows, int64_t count, int64_t d, float factor, float *to) {
  const int64_t padded = attentionPadded(d);
  for (int64_t i = 0; i < count; ++i, to += padded) {
    for (int64_t j = 0; j < d; ++j)
      to[j] = rows[i][j] * factor;
    std::fill(to + d, to + padded, 0.0f);
  }
  std::fill_n(to, (kRows - count) * padded, 0.0f);
}

void Task::gatherGradients() {
  const float *q[kRows], *o[kRows], *outputGradient[kRows];
  rowsOf(x_.q, q);
  rowsOf<const float>(x_.o, o);
  rowsOf(x_.outputGradient, outputGradient);
  kernels_.pack(outputGradient, rows_, a_.d, 1, lane_.outputGradient);
  copyRows(outputGradient, rows_, a_.d, 1, lane_.outputGradientRows);
  copyRows(q, rows_, a_.d, static_cast<float>(a_.scale), lane_.qRows);
  std::fill_n(lane_.dq, kRows * a_.d, 0.0f);
  std::fill_n(queries_.shift, kRows, kInfinity); // sees nothing: p = 2^-inf = 0
  std::fill_n(queries_.sum, kRows, 0.0f);
  for (int64_t i = 0; i < rows_; ++i) {
    const float lse = x_.lse[rowIndex(i)];
    queries_.shift[i] = lse == -kInfinity ? kInfinity : static_cast<float>(lse / kLn2);
    queries_.sum[i] = dot(outputGradient[i], o[i], a_.d);
  }
  queries_.outputGradient = lane_.outputGradient, queries_.dq = lane_.dq;
  queries_.outputGradientRows = lane_.outputGradientRows, queries_.qRows = lane_.qRows;
}

void Task::clearKeyGradients(int64_t block) const {
  for (int64_t t = block * kKeys; t < std::min((block + 1) * kKeys, a_.t); ++t) {
    std::fill_n(x_.dk + keyOffset(t), a_.d, 0.0f);
    std::fill_n(x_.dv + keyOffset(t), a_.d, 0.0f);
  }
}

// Returns once the turn, if there is one, is past the block. That of the task before comes there: it began
// before this one.
void await(const Turn *turn, int64_t block) {
  for (int32_t at; turn && (at = turn->load(std::memory_order_acquire)) <= block;)
    turn->wait(at, std::memory_order_relaxed);
}

void pass(Turn *turn) {
  turn->fetch_add(1, std::memory_order_release);
  turn->notify_all();
}

void Task::backward(Turn *before, Turn *mine) {
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
    pass(mine);
  }
  float *rows[kRows], factors[kRows];
  rowsOf(x_.dq, rows);
  std::fill_n(factors, kRows, static_cast<float>(a_.scale));
  kernels_.unpack(lane_.dq, factors, rows_, a_.d, rows);
}

} // namespace

int64_t attentionWorkspaceBytes(const plan::Attention &attention) {
  if (isEmpty(attention))
    return 0;
  Lane lane;
  Turn *turns;
  const __int128 bytes =
      layOut(attention, nullptr, turns) + layOut(attention, nullptr, lane) * lanes(attention);
  return static_cast<int64_t>(std::min<__int128>(bytes, std::numeric_limits<int64_t>::max()));
}

void attention(const plan::Attention &attention, const AttentionOperands &operands,
               const AttentionScalars &scalars, int threads, const AttentionKernels &kernels) {
  if (isEmpty(attention))
    return;
  Lane unused;
  Turn *turns;
  const int64_t rowBlocks = static_cast<int64_t>(blocks(attention));
  const int64_t tasks = static_cast<int64_t>(heads(attention)) * rowBlocks;
  const int64_t laneBytes = static_cast<int64_t>(layOut(attention, nullptr, unused));
  char *lanesBase = static_cast<char *>(operands.workspace) +
                    static_cast<int64_t>(layOut(attention, static_cast<char *>(operands.workspace), turns));
  for (int64_t i = 0; i < tasks && attention.backward; ++i)
    new (turns + i) Turn(0);
  parallelFor(threads, lanes(attention), tasks, [&](int64_t index, int64_t laneIndex) {
    Lane lane;
    layOut(attention, lanesBase + laneIndex * laneBytes, lane);
    const int64_t block = index % rowBlocks;
    Task task(attention, operands, scalars, kernels, index / rowBlocks, block * kRows, lane);
    if (attention.backward)
      task.backward(block ? turns + index - 1 : nullptr, turns + index);
    else
      task.forward();
  });
}

void attention(const plan::Attention &plan, const AttentionOperands &operands,
               const AttentionScalars &scalars, int threads) {
  attention(plan, operands, scalars, threads, *attentionKernels().front());
}

} // namespace mgc
