// See Attention.h. Online softmax over key blocks (Milakov and Gimelshein 2018; Dao et al. 2022): a block of
// query rows keeps a running maximum m, sum l and output o, and each key block updates them:
//   m' = max(m, max s);  p = exp(s - m');  l' = l exp(m - m') + sum p;  o' = o exp(m - m') + p v
// Backward recomputes p = exp(s - lse) and needs only delta = rowsum(do o):
//   dv += p^T do;  ds = p (do v^T - delta);  dq += ds k;  dk += ds^T q
// A query row is a pair (s, r) of one (b, g): all r share the keys.
#include "runtime/kernels/Attention.h"

#include "runtime/kernels/AttentionRows.h"
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mgc {

namespace {

constexpr int64_t kRows = kAttentionRows, kKeys = kAttentionKeys;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Range { // of positions
  int32_t least = std::numeric_limits<int32_t>::max(), greatest = std::numeric_limits<int32_t>::min();
  void add(int32_t position) {
    least = std::min(least, position);
    greatest = std::max(greatest, position);
  }
};

// Working memory of one lane. All parts start on 64 bytes.
struct Lane {
  float *q, *output, *outputGradient, *dq; // [kRows, d]; q times scale; the latter two backward only
  float *scores, *gradients;               // [kRows, kKeys]; the latter backward only
  float *factors;                          // [kKeys]
  int32_t *keyPositions;                   // [t] of this b
  Range *keyRanges;                        // [blocks of t]
};

// Sums up the parts of a lane, or hands them out when there is a base.
class LaneLayout {
public:
  explicit LaneLayout(char *base) : base_(base) {}
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
  LaneLayout layout(base);
  const __int128 block = static_cast<__int128>(kRows) * attention.d;
  layout.add(lane.q, block);
  layout.add(lane.scores, kRows * kKeys);
  layout.add(lane.factors, kKeys);
  layout.add(lane.keyPositions, attention.t);
  layout.add(lane.keyRanges, (attention.t + static_cast<__int128>(kKeys) - 1) / kKeys);
  layout.add(lane.output, attention.backward ? 0 : block);
  layout.add(lane.outputGradient, attention.backward ? block : 0);
  layout.add(lane.dq, attention.backward ? block : 0);
  layout.add(lane.gradients, attention.backward ? kRows * kKeys : 0);
  return layout.bytes();
}

bool isEmpty(const plan::Attention &attention) {
  return attention.b <= 0 || attention.g <= 0 || attention.d <= 0;
}

// min(kAttentionLanes, tasks). Forward, a task is a block of rows of one (b, g); backward, one (b, g).
int64_t lanes(const plan::Attention &attention) {
  const auto few = [](int64_t value, int64_t limit) { return std::clamp<int64_t>(value, 0, limit); };
  int64_t count = few(attention.b, kAttentionLanes) * few(attention.g, kAttentionLanes);
  const int64_t most = kAttentionLanes * kRows, rows = few(attention.s, most) * few(attention.r, most);
  if (!attention.backward)
    count = few(count, kAttentionLanes) * ((rows + kRows - 1) / kRows);
  return few(count, kAttentionLanes);
}

enum class Visible { none, some, all };

// One (b, g) of the problem.
class Head {
public:
  Head(const plan::Attention &attention, const AttentionOperands &operands, const AttentionScalars &scalars,
       int64_t index, const Lane &lane)
      : a_(attention), x_(operands), scalars_(scalars), lane_(lane), b_(index / attention.g),
        g_(index % attention.g), scale_(static_cast<float>(attention.scale)),
        dropoutKey_(dropoutKey(scalars.seed, attention.site, scalars.instance)) {
    gatherKeyPositions();
  }
  void forward(int64_t firstRow);
  void backward();

private:
  const plan::Attention &a_;
  const AttentionOperands &x_;
  const AttentionScalars &scalars_;
  const Lane &lane_;
  int64_t b_, g_;
  float scale_;
  PhiloxKey dropoutKey_;
  // The current block of rows.
  int64_t firstRow_ = 0, rows_ = 0;
  int32_t rowPositions_[kRows];
  Range rowRange_;

  int64_t rowCount() const { return a_.s * a_.r; }
  // Index of a row in lse; times d, in q.
  int64_t rowIndex(int64_t row) const { return ((row / a_.r * a_.b + b_) * a_.g + g_) * a_.r + row % a_.r; }
  const float *rowOf(const float *tensor, int64_t i) const { return tensor + rowIndex(firstRow_ + i) * a_.d; }
  float *rowOf(float *tensor, int64_t i) const { return tensor + rowIndex(firstRow_ + i) * a_.d; }
  int64_t keyStride() const { return a_.b * a_.g * a_.d; }
  int64_t keyOffset(int64_t t) const { return t * keyStride() + (b_ * a_.g + g_) * a_.d; }

  void gatherKeyPositions();
  void beginRows(int64_t firstRow);
  Visible visibility(const Range &keys) const;
  void hide(int64_t i, int64_t firstKey, int64_t keys, Visible visible) const;
  const float *dropFactors(int64_t i, int64_t firstKey, int64_t keys) const;
  void scoreKeys(int64_t firstKey, int64_t keys) const;
  void forwardKeys(int64_t firstKey, int64_t keys, Visible visible, SoftmaxState *states) const;
  void backwardRows(int64_t firstRow);
  void backwardKeys(int64_t firstKey, int64_t keys, Visible visible, const float *shifts,
                    const float *deltas) const;
  template <typename Body> void forVisibleKeys(Body body) const;
};

void Head::gatherKeyPositions() {
  for (int64_t first = 0; first < a_.t; first += kKeys) {
    Range range;
    for (int64_t t = first; t < std::min(first + kKeys, a_.t); ++t)
      range.add(lane_.keyPositions[t] = x_.keyPositions[t * a_.b + b_]);
    lane_.keyRanges[first / kKeys] = range;
  }
}

// Makes [firstRow, firstRow + kRows) the current block and packs its queries, scaled.
void Head::beginRows(int64_t firstRow) {
  firstRow_ = firstRow;
  rows_ = std::min(kRows, rowCount() - firstRow);
  rowRange_ = Range();
  for (int64_t i = 0; i < rows_; ++i) {
    rowRange_.add(rowPositions_[i] = x_.queryPositions[(firstRow + i) / a_.r * a_.b + b_]);
    scaleRow(rowOf(x_.q, i), scale_, lane_.q + i * a_.d, a_.d);
  }
}

Visible Head::visibility(const Range &keys) const {
  const int64_t least = keys.least, greatest = keys.greatest;
  if (least > rowRange_.greatest || (a_.window > 0 && rowRange_.least - greatest >= a_.window))
    return Visible::none;
  const bool near = a_.window <= 0 || rowRange_.greatest - least < a_.window;
  return greatest <= rowRange_.least && near ? Visible::all : Visible::some;
}

template <typename Body> void Head::forVisibleKeys(Body body) const {
  for (int64_t first = 0; first < a_.t; first += kKeys)
    if (Visible visible = visibility(lane_.keyRanges[first / kKeys]); visible != Visible::none)
      body(first, std::min(kKeys, a_.t - first), visible);
}

void Head::hide(int64_t i, int64_t firstKey, int64_t keys, Visible visible) const {
  constexpr int64_t lowest = std::numeric_limits<int32_t>::min();
  const int64_t position = rowPositions_[i];
  const bool windowed = a_.window > 0 && a_.window <= position - lowest;
  hideKeys(lane_.scores + i * kKeys, keys, visible == Visible::all ? nullptr : lane_.keyPositions + firstKey,
           static_cast<int32_t>(windowed ? position - a_.window + 1 : lowest), rowPositions_[i]);
}

// Null without dropout.
const float *Head::dropFactors(int64_t i, int64_t firstKey, int64_t keys) const {
  if (!(a_.dropout > 0))
    return nullptr;
  const int64_t head = scalars_.headOffset + g_ * a_.groupStride + (firstRow_ + i) % a_.r;
  const DropoutRow row = {dropoutKey_,
                          static_cast<uint32_t>(x_.samples[b_]),
                          static_cast<uint32_t>(head),
                          static_cast<uint32_t>(rowPositions_[i]),
                          dropoutThreshold(a_.dropout),
                          a_.dropout < 1 ? static_cast<float>(1 / (1 - a_.dropout)) : 0.0f};
  dropoutFactors(row, lane_.keyPositions + firstKey, keys, lane_.factors);
  return lane_.factors;
}

void Head::scoreKeys(int64_t firstKey, int64_t keys) const {
  stridedGemm({.m = rows_, .n = keys, .k = a_.d, .transposeB = true}, {lane_.q, a_.d},
              {x_.k + keyOffset(firstKey), keyStride()}, lane_.scores, kKeys);
}

void Head::forwardKeys(int64_t firstKey, int64_t keys, Visible visible, SoftmaxState *states) const {
  scoreKeys(firstKey, keys);
  for (int64_t i = 0; i < rows_; ++i) {
    float *row = lane_.scores + i * kKeys, *output = lane_.output + i * a_.d;
    hide(i, firstKey, keys, visible);
    const float factor = softmaxStep(row, keys, states[i]);
    if (factor != 1)
      scaleRow(output, factor, output, a_.d);
    if (const float *factors = dropFactors(i, firstKey, keys))
      multiplyRow(row, factors, keys);
  }
  stridedGemm({.m = rows_, .n = a_.d, .k = keys, .accumulate = true}, {lane_.scores, kKeys},
              {x_.v + keyOffset(firstKey), keyStride()}, lane_.output, a_.d);
}

void Head::forward(int64_t firstRow) {
  beginRows(firstRow);
  SoftmaxState states[kRows];
  std::fill_n(states, rows_, SoftmaxState{-kInfinity, 0});
  std::fill_n(lane_.output, rows_ * a_.d, 0.0f);
  forVisibleKeys(
      [&](int64_t first, int64_t keys, Visible visible) { forwardKeys(first, keys, visible, states); });
  for (int64_t i = 0; i < rows_; ++i) {
    const float sum = states[i].sum; // 0: sees nothing
    x_.lse[rowIndex(firstRow + i)] = states[i].maximum + std::log(sum);
    scaleRow(lane_.output + i * a_.d, sum == 0 ? 0 : 1 / sum, rowOf(x_.o, i), a_.d);
  }
}

void Head::backwardKeys(int64_t firstKey, int64_t keys, Visible visible, const float *shifts,
                        const float *deltas) const {
  const int64_t d = a_.d, offset = keyOffset(firstKey), stride = keyStride();
  scoreKeys(firstKey, keys);
  stridedGemm({.m = rows_, .n = keys, .k = d, .transposeB = true}, {lane_.outputGradient, d},
              {x_.v + offset, stride}, lane_.gradients, kKeys);
  for (int64_t i = 0; i < rows_; ++i) {
    hide(i, firstKey, keys, visible);
    softmaxGradient(lane_.scores + i * kKeys, lane_.gradients + i * kKeys, keys, shifts[i], deltas[i],
                    dropFactors(i, firstKey, keys));
  }
  stridedGemm({.m = keys, .n = d, .k = rows_, .transposeA = true, .accumulate = true}, {lane_.scores, kKeys},
              {lane_.outputGradient, d}, x_.dv + offset, stride);
  stridedGemm({.m = keys, .n = d, .k = rows_, .transposeA = true, .accumulate = true},
              {lane_.gradients, kKeys}, {lane_.q, d}, x_.dk + offset, stride);
  stridedGemm({.m = rows_, .n = d, .k = keys, .accumulate = true}, {lane_.gradients, kKeys},
              {x_.k + offset, stride}, lane_.dq, d);
}

void Head::backwardRows(int64_t firstRow) {
  beginRows(firstRow);
  float shifts[kRows], deltas[kRows];
  for (int64_t i = 0; i < rows_; ++i) {
    const float *outputGradient = rowOf(x_.outputGradient, i), *output = rowOf(x_.o, i);
    std::copy_n(outputGradient, a_.d, lane_.outputGradient + i * a_.d);
    double delta = 0;
    for (int64_t j = 0; j < a_.d; ++j)
      delta += static_cast<double>(outputGradient[j]) * output[j];
    const float lse = x_.lse[rowIndex(firstRow + i)];
    deltas[i] = static_cast<float>(delta);
    shifts[i] = lse == -kInfinity ? kInfinity : lse; // sees nothing: p = exp(-inf) = 0
  }
  std::fill_n(lane_.dq, rows_ * a_.d, 0.0f);
  forVisibleKeys([&](int64_t first, int64_t keys, Visible visible) {
    backwardKeys(first, keys, visible, shifts, deltas);
  });
  for (int64_t i = 0; i < rows_; ++i)
    scaleRow(lane_.dq + i * a_.d, scale_, rowOf(x_.dq, i), a_.d);
}

void Head::backward() {
  for (int64_t t = 0; t < a_.t; ++t) {
    std::fill_n(x_.dk + keyOffset(t), a_.d, 0.0f);
    std::fill_n(x_.dv + keyOffset(t), a_.d, 0.0f);
  }
  for (int64_t row = 0; row < rowCount(); row += kRows)
    backwardRows(row);
}

} // namespace

int64_t attentionWorkspaceBytes(const plan::Attention &attention) {
  if (isEmpty(attention))
    return 0;
  Lane lane;
  const __int128 bytes = layOut(attention, nullptr, lane) * lanes(attention);
  return static_cast<int64_t>(std::min<__int128>(bytes, std::numeric_limits<int64_t>::max()));
}

void attention(const plan::Attention &attention, const AttentionOperands &operands,
               const AttentionScalars &scalars, int threads) {
  if (isEmpty(attention))
    return;
  const int64_t heads = attention.b * attention.g;
  const int64_t blocks = attention.backward ? 1 : (attention.s * attention.r + kRows - 1) / kRows;
  Lane unused;
  const int64_t laneBytes = static_cast<int64_t>(layOut(attention, nullptr, unused));
  parallelFor(threads, lanes(attention), heads * blocks, [&](int64_t task, int64_t laneIndex) {
    Lane lane;
    layOut(attention, static_cast<char *>(operands.workspace) + laneIndex * laneBytes, lane);
    Head head(attention, operands, scalars, task / blocks, lane);
    if (attention.backward)
      head.backward();
    else
      head.forward(task % blocks * kRows);
  });
}

} // namespace mgc
