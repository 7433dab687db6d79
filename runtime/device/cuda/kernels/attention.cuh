// Attention without tensor cores: all that a plan can ask, in f32 arithmetic, bf16 in memory only. See
// runtime/kernels/Attention.cpp for the formulas; names are the same. A file that includes this one has the kernels for d and
// w up to a multiple of kSlice, so that a device compiles only what it needs: MGC_ATTENTION_KERNELS(columns).
//
// A block has 64 rows of one (b, g): queries (pairs (s, r)) in attention_forward and attention_dq, keys in
// attention_dkdv. It meets the other side in tiles of 64, in order, and keeps its results in registers:
//
//             other side: 64 rows
//           +--------------------+
//   own     | 4 x 4 scores a     |   scores = own . other over d, in slices of 32 columns   (multiply)
//   64 rows | thread             |   weights = what follows from them, to shared memory
//           +--------------------+   results += weights . rows of the other side            (mix)
//
// Each sum is made by one thread in the order of the other side's rows (dk and dv: s, then r), so that equal inputs give equal
// bits. A thread of `multiply` has rows 4 row() + i of its own side and 4 column() + j of the other; one of `mix` has rows
// 4 row() + i and columns 2 column() + c of every slice.
#include "runtime/random/Philox.h"
#include "runtime/device/cuda/kernels/attentionMemory.cuh"

using namespace mgc;
using namespace mgc::cuda;

namespace {

constexpr int kTile = kAttentionTile, kSlice = kAttentionSlice, kThreads = kAttentionThreads;
constexpr int kTransposed = kTile + 4;  // stride of [kSlice, kTile]: stores and 16-byte loads meet few bank conflicts
constexpr int kStraight = kSlice + 8;   // stride of [kTile, kSlice]
constexpr int kGroups = kThreads / 16;  // threads along a side of the tile
constexpr int kLeast = -2147483647 - 1, kGreatest = 2147483647;
constexpr int64_t kUnlimited = int64_t(1) << 32; // a window that holds all positions
constexpr float kLn2 = 0.693147180559945309417f;
static_assert(kGroups * 4 == kTile && 16 * 2 == kSlice, "how threads share a tile");

__device__ float minusInfinity() { return __int_as_float(0xff800000); }
__device__ int row() { return threadIdx.x / 16; }
__device__ int column() { return threadIdx.x % 16; }

// (2^r - 1) / r for |r| <= 1/2: this and the two below as in runtime/kernels/AttentionVectors.h.
__device__ float powerSeries(float r) {
  float series = 1.534732000e-04f;
  series = fmaf(series, r, 1.340015442e-03f);
  series = fmaf(series, r, 9.618484415e-03f);
  series = fmaf(series, r, 5.550327897e-02f);
  series = fmaf(series, r, 2.402264625e-01f);
  return fmaf(series, r, 6.931471825e-01f);
}

// 2^x for x <= 127, 0 below -126.5.
__device__ float powerOfTwo(float x) {
  x = x < -127.0f ? -127.0f : x; // NaN stays NaN
  const float shifted = x + 12582912.0f, rest = x - (shifted - 12582912.0f);
  const float series = fmaf(powerSeries(rest), rest, 1.0f);
  return series * __uint_as_float((__float_as_uint(shifted) + 127) << 23);
}

// tanh(x): e / (e + 2) with the magnitude's e = exp(2 x) - 1.
__device__ float tangent(float x) {
  const uint32_t sign = __float_as_uint(x) & 0x80000000u;
  float rest = __uint_as_float(__float_as_uint(x) ^ sign);
  rest = (rest > 10.0f ? 10.0f : rest) * 2.885390082f; // 2 / ln(2)
  const float shifted = rest + 12582912.0f, power = __uint_as_float((__float_as_uint(shifted) + 127) << 23);
  rest = rest - (shifted - 12582912.0f);
  const float e = fmaf(power, powerSeries(rest) * rest, power - 1.0f);
  return __uint_as_float(__float_as_uint(e / (e + 2.0f)) | sign);
}

// --- Sides.

// Up to 64 queries or keys of one (b, g).
struct Side {
  int64_t group[kTile]; // (position, b, g) as an index
  int inner[kTile];     // r of a query, 0 of a key
  int first[kTile], last[kTile]; // queries: positions of visible keys. Keys: both their own
  int position[kTile];
  float slope[kTile]; // queries: the score decreases by it for each position between key and query
  int head[kTile];    // queries: place in [g, r]
};

struct Shared {
  Side own, other;
  union { // each matrix product has read its operands before the next begins
    struct {
      float transposedOwn[kSlice * kTransposed], transposedOther[kSlice * kTransposed];
    };
    float straight[kTile * kStraight];
  };
  float weights[kTile * kTransposed]; // [other, own]
  float shift[kTile], sum[kTile];     // queries: see attention_forward, attention_dq
  float factor[kTile], partial[kGroups * kTile];
  int least, greatest; // range of the positions that own rows see, or are at
  int meets;           // whether some pair of own and other may be visible
};

__device__ int64_t groupIndex(const AttentionArguments &a, int64_t position, int64_t head) {
  return position * a.b * a.g + head; // head = b * g + g
}

// The positions of the keys that query i sees, whose position is number `at` of [s, b].
__device__ void setVisible(const AttentionArguments &a, Side &side, int i, int64_t at) {
  const int position = reinterpret_cast<const int *>(a.queryPositions)[at];
  const int64_t reach = a.window > 0 && a.window < kUnlimited ? a.window : kUnlimited;
  int64_t first = position - reach + 1, last = a.isCausal ? position : position + reach - 1;
  if (a.starts)
    first = max(first, int64_t(reinterpret_cast<const int *>(a.starts)[at]));
  if (a.ends)
    last = min(last, int64_t(reinterpret_cast<const int *>(a.ends)[at]) - 1);
  side.position[i] = position;
  if (last < kLeast) // it ends before the least of all positions
    return;
  side.first[i] = int(max(first, int64_t(kLeast)));
  side.last[i] = int(min(last, int64_t(kGreatest)));
}

// Thread i sets row i. Rows past the end are no queries: they see nothing.
__device__ void setQuery(const AttentionArguments &a, Side &side, int i, int64_t row, int64_t head) {
  const bool exists = row < a.s * a.r;
  const int64_t s = exists ? row / a.r : 0;
  side.group[i] = groupIndex(a, s, head);
  side.inner[i] = exists ? int(row % a.r) : 0;
  side.first[i] = kGreatest, side.last[i] = kLeast;
  side.position[i] = 0, side.slope[i] = 0, side.head[i] = 0;
  if (!exists)
    return;
  const int64_t at = s * a.b + head / a.g;
  setVisible(a, side, i, at);
  side.head[i] = int(head % a.g * a.r) + side.inner[i];
  if (a.slopes)
    side.slope[i] = reinterpret_cast<const float *>(a.slopes)[side.head[i]];
}

// Past the end: no key, which no query sees.
__device__ void setKey(const AttentionArguments &a, Side &side, int i, int64_t t, int64_t head) {
  const bool exists = t < a.t;
  side.group[i] = groupIndex(a, exists ? t : 0, head);
  side.inner[i] = 0;
  side.first[i] = kGreatest, side.last[i] = kLeast;
  side.position[i] = 0;
  if (exists)
    side.first[i] = side.last[i] = side.position[i] = reinterpret_cast<const int *>(a.keyPositions)[t * a.b + head / a.g];
}

// Where one is missing, its first is greater than its last.
__device__ bool isVisible(const Side &queries, int query, const Side &keys, int key) {
  const int position = keys.last[key];
  return queries.first[query] <= position && position <= queries.last[query] && keys.first[key] <= position;
}

// After own rows are set.
__device__ void setOwnRange(Shared &x) {
  if (threadIdx.x == 0) {
    x.least = kGreatest, x.greatest = kLeast;
    for (int i = 0; i < kTile; ++i) {
      x.least = min(x.least, x.own.first[i]);
      x.greatest = max(x.greatest, x.own.last[i]);
    }
  }
  __syncthreads();
}

// Sets the other side's rows; false when none of the pairs is visible.
template <typename Set> __device__ bool meet(Shared &x, const Set &set) {
  __syncthreads(); // the tile before is done with
  if (threadIdx.x == 0)
    x.meets = 0;
  __syncthreads();
  if (threadIdx.x < kTile) {
    const int i = threadIdx.x;
    set(i);
    if (x.other.first[i] <= x.greatest && x.least <= x.other.last[i] && x.other.first[i] <= x.other.last[i])
      x.meets = 1; // all that write write the same
  }
  __syncthreads();
  return x.meets;
}

// --- Matrix products.

// One element a time of 64 rows of `width` and 32 columns from `column`, 0 past the end: put(row, column in the slice, value).
template <typename Put>
__device__ void eachElement(const AttentionArguments &a, const AttentionTensor &tensor, const Side &side, int width,
                            int column, const Put &put) {
#pragma unroll 1
  for (int i = threadIdx.x / 8; i < kTile; i += kThreads / 8) {
    const int64_t at = side.group[i] * tensor.stride + side.inner[i] * width + column;
#pragma unroll
    for (int part = 0; part < kSlice; part += 8) {
      const int j = threadIdx.x % 8 + part;
      put(i, j, column + j < width ? load(a, tensor, at + j) : 0.0f);
    }
  }
}

// products[i][j] = factor * own row 4 row() + i . other row 4 column() + j, of `width` elements each.
__device__ void multiply(const AttentionArguments &a, Shared &x, const AttentionTensor &own, const AttentionTensor &other,
                         int width, float factor, float (&products)[4][4]) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
    products[i / 4][i % 4] = 0;
  for (int slice = 0; slice < width; slice += kSlice) {
    __syncthreads();
    eachElement(a, own, x.own, width, slice, [&](int i, int j, float y) { x.transposedOwn[j * kTransposed + i] = y * factor; });
    eachElement(a, other, x.other, width, slice, [&](int i, int j, float y) { x.transposedOther[j * kTransposed + i] = y; });
    __syncthreads();
#pragma unroll 4
    for (int p = 0; p < kSlice; ++p) {
      const float4 left = *reinterpret_cast<const float4 *>(x.transposedOwn + p * kTransposed + 4 * row());
      const float4 right = *reinterpret_cast<const float4 *>(x.transposedOther + p * kTransposed + 4 * column());
      const float lefts[] = {left.x, left.y, left.z, left.w}, rights[] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 16; ++i)
        products[i / 4][i % 4] = fmaf(lefts[i / 4], rights[i % 4], products[i / 4][i % 4]);
    }
  }
}

__device__ void keepWeights(Shared &x, const float (&weights)[4][4]) {
  __syncthreads(); // the ones before are done with
#pragma unroll
  for (int j = 0; j < 4; ++j)
    *reinterpret_cast<float4 *>(x.weights + (4 * column() + j) * kTransposed + 4 * row()) =
        make_float4(weights[0][j], weights[1][j], weights[2][j], weights[3][j]);
}

template <int kSlices> using Results = float[kSlices][4][2];

// results += weights . rows of the other side's tensor, of `width` elements each.
template <int kSlices>
__device__ void mix(const AttentionArguments &a, Shared &x, const AttentionTensor &other, int width,
                    Results<kSlices> &results) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    if (slice * kSlice >= width)
      break;
    __syncthreads();
    eachElement(a, other, x.other, width, slice * kSlice, [&](int i, int j, float y) { x.straight[i * kStraight + j] = y; });
    __syncthreads();
#pragma unroll 4
    for (int p = 0; p < kTile; ++p) {
      const float4 left = *reinterpret_cast<const float4 *>(x.weights + p * kTransposed + 4 * row());
      const float2 right = *reinterpret_cast<const float2 *>(x.straight + p * kStraight + 2 * column());
      const float lefts[] = {left.x, left.y, left.z, left.w}, rights[] = {right.x, right.y};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        results[slice][i / 2][i % 2] = fmaf(lefts[i / 2], rights[i % 2], results[slice][i / 2][i % 2]);
    }
  }
}

template <int kSlices> __device__ void scaleRows(Results<kSlices> &results, const float *factors) {
#pragma unroll
  for (int i = 0; i < kSlices * 8; ++i)
    results[i / 8][i / 2 % 4][i % 2] *= factors[4 * row() + i / 2 % 4];
}

// The first `count` of the own rows, of `width` elements each.
template <int kSlices>
__device__ void storeRows(const AttentionArguments &a, const Shared &x, const AttentionTensor &tensor, int width,
                          int64_t count, float factor, const Results<kSlices> &results) {
#pragma unroll
  for (int i = 0; i < kSlices * 8; ++i) {
    const int own = 4 * row() + i / 2 % 4;
    const int at = i / 8 * kSlice + 2 * column() + i % 2;
    if (own < count && at < width)
      store(a, tensor, x.own.group[own] * tensor.stride + x.own.inner[own] * width + at,
            results[i / 8][i / 2 % 4][i % 2] * factor);
  }
}

// --- Dropout. Bit 4 i + j of a thread's 4 x 4 pairs: whether the pair of own row 4 row() + i and other row
// 4 column() + j is kept.

__device__ uint32_t keptPairs(const AttentionArguments &a, const Shared &x, bool ownAreQueries, int64_t head) {
  if (!a.dropout.threshold)
    return 0xFFFF;
  const uint32_t sample = reinterpret_cast<const uint32_t *>(a.samples)[head / a.g];
  const Side &queries = ownAreQueries ? x.own : x.other, &keys = ownAreQueries ? x.other : x.own;
  uint32_t kept = 0;
#pragma unroll 1
  for (int pair = 0; pair < 16; ++pair) {
    const int own = 4 * row() + pair / 4, other = 4 * column() + pair % 4;
    const int query = ownAreQueries ? own : other, key = ownAreQueries ? other : own;
    const uint32_t queryHead = uint32_t(a.headOffset + head % a.g * a.groupStride + queries.inner[query]);
    const PhiloxWords words = philox({sample, queryHead, uint32_t(queries.position[query]), uint32_t(keys.position[key])},
                                     {a.dropout.key[0], a.dropout.key[1]});
    kept |= uint32_t(words[0] >= a.dropout.threshold) << pair;
  }
  return kept;
}

__device__ float keepFactor(const AttentionArguments &a, uint32_t kept, int pair) {
  return kept >> pair & 1 ? a.dropout.keep : 0.0f;
}

// --- From products to scores: caps, slopes and biases, before softmax.

__device__ int bucketOf(const AttentionArguments &a, int query, int key) { // arguments are positions
  const bool isBehind = key > query;
  const uint32_t reach = uint32_t(a.bias.maxDistance);
  uint32_t distance = isBehind ? uint32_t(key) - uint32_t(query) : uint32_t(query) - uint32_t(key); // 32 bits hold all
  distance = distance < reach ? distance : reach;
  return reinterpret_cast<const int *>(a.bias.buckets)[isBehind ? reach + distance : reach - distance];
}

// The score, and its derivative by the product times scale.
template <bool kBias>
__device__ float scoreOf(const AttentionArguments &a, const Side &queries, int query, const Side &keys, int key,
                         float product, float &derivative) {
  derivative = 1;
  if (a.cap > 0) {
    const float y = tangent(product);
    product = a.cap * y;
    derivative = 1 - y * y;
  }
  if (a.slopes) {
    const float distance = float(keys.position[key]) - float(queries.position[query]);
    product -= queries.slope[query] * (distance < 0 ? -distance : distance);
  }
  if constexpr (kBias) {
    const int bucket = bucketOf(a, queries.position[query], keys.position[key]);
    product += load(a, a.bias.table, bucket * int(a.g * a.r) + queries.head[query]) / kLn2;
  }
  return product;
}

// --- Forward: shift and sum are the running maximum and sum of 2^(score - maximum). A sink is a score before the keys', of no value.

// After setQuery.
__device__ void beginAtSink(const AttentionArguments &a, Shared &x, int i, int64_t head) {
  x.shift[i] = minusInfinity(), x.sum[i] = 0;
  if (a.sinks.address)
    x.shift[i] = load(a, a.sinks, head % a.g * a.r + x.own.inner[i]) / kLn2, x.sum[i] = 1;
}

// scores <- 2^(score - new maximum); factor: of what was summed up before.
__device__ void softmaxStep(Shared &x, float (&scores)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    x.partial[column() * kTile + 4 * row() + i] =
        fmaxf(fmaxf(scores[i][0], scores[i][1]), fmaxf(scores[i][2], scores[i][3])); // NaN is found by its power
  __syncthreads();
  __shared__ float base[kTile];
  if (threadIdx.x < kTile) {
    const int i = threadIdx.x;
    float maximum = x.shift[i];
    for (int group = 0; group < kGroups; ++group)
      maximum = fmaxf(maximum, x.partial[group * kTile + i]);
    base[i] = maximum == minusInfinity() ? 0.0f : maximum; // no key visible so far: 2^(-inf - 0) = 0
    x.factor[i] = powerOfTwo(x.shift[i] - base[i]);
    x.shift[i] = maximum;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      sum += scores[i][j] = powerOfTwo(scores[i][j] - base[4 * row() + i]);
    x.partial[column() * kTile + 4 * row() + i] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kTile) {
    float sum = x.sum[threadIdx.x] * x.factor[threadIdx.x];
    for (int group = 0; group < kGroups; ++group)
      sum += x.partial[group * kTile + threadIdx.x];
    x.sum[threadIdx.x] = sum;
  }
}

template <int kSlices, bool kBias> __device__ void forward(const AttentionArguments &a) {
  __shared__ Shared x;
  const int64_t blocks = (a.s * a.r + kTile - 1) / kTile;
  const int64_t head = blockIdx.x / blocks, firstRow = (blocks - 1 - blockIdx.x % blocks) * kTile; // the longest first
  if (threadIdx.x < kTile) {
    setQuery(a, x.own, threadIdx.x, firstRow + threadIdx.x, head);
    beginAtSink(a, x, threadIdx.x, head);
  }
  __syncthreads();
  setOwnRange(x);
  Results<kSlices> o = {};
  for (int64_t key = 0; key < a.t; key += kTile) {
    if (!meet(x, [&](int i) { setKey(a, x.other, i, key + i, head); }))
      continue;
    float scores[4][4];
    multiply(a, x, a.q, a.k, int(a.d), a.scoreScale, scores);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int query = 4 * row() + i / 4, key = 4 * column() + i % 4;
      float &score = scores[i / 4][i % 4], unused;
      score = isVisible(x.own, query, x.other, key) ? scoreOf<kBias>(a, x.own, query, x.other, key, score, unused)
                                                    : minusInfinity();
    }
    softmaxStep(x, scores);
    const uint32_t kept = keptPairs(a, x, true, head);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      scores[i / 4][i % 4] *= keepFactor(a, kept, i);
    keepWeights(x, scores);
    scaleRows<kSlices>(o, x.factor);
    mix<kSlices>(a, x, a.v, int(a.w), o);
  }
  const int64_t count = a.s * a.r - firstRow;
  __syncthreads();
  if (threadIdx.x < kTile && threadIdx.x < count) {
    const int i = threadIdx.x;
    reinterpret_cast<float *>(a.lse)[x.own.group[i] * a.r + x.own.inner[i]] = fmaf(x.shift[i], kLn2, logf(x.sum[i]));
    x.factor[i] = x.sum[i] == 0 ? 0.0f : 1 / x.sum[i]; // 0: sees nothing
  }
  __syncthreads();
  scaleRows<kSlices>(o, x.factor);
  storeRows<kSlices>(a, x, a.o, int(a.w), count, 1, o);
}

// --- Backward: shift and sum are lse in powers of 2, infinity if nothing is seen, and delta.

__device__ void loadStatistics(const AttentionArguments &a, Shared &x, const Side &queries, int i) {
  x.shift[i] = -minusInfinity(), x.sum[i] = 0;
  if (queries.first[i] > queries.last[i])
    return;
  const int64_t at = queries.group[i] * a.r + queries.inner[i];
  const float lse = reinterpret_cast<const float *>(a.lse)[at];
  x.shift[i] = lse == minusInfinity() ? -lse : lse / kLn2;
  x.sum[i] = reinterpret_cast<const float *>(a.delta)[at];
}

// `probability` is a product before. With the factor f of dropout: p = 2^(score - shift); probability <- p f; gradient <-
// p (gradient f - delta), that of the score; derivative: the score's by the product times scale.
template <bool kBias>
__device__ void scoreGradient(const AttentionArguments &a, const Shared &x, const Side &queries, int query, const Side &keys,
                              int key, float factor, float &probability, float &gradient, float &derivative) {
  if (!isVisible(queries, query, keys, key)) {
    probability = gradient = 0, derivative = 1;
    return;
  }
  const float exponent = scoreOf<kBias>(a, queries, query, keys, key, probability, derivative) - x.shift[query];
  const float p = powerOfTwo(exponent > 127 ? 127 : exponent); // above 0 by rounding only
  probability = p * factor;
  gradient = p * (gradient * factor - x.sum[query]);
}

// The same, but gradient <- that of the product times scale.
template <bool kBias>
__device__ void softmaxGradient(const AttentionArguments &a, const Shared &x, const Side &queries, int query,
                                const Side &keys, int key, float factor, float &probability, float &gradient) {
  float derivative;
  scoreGradient<kBias>(a, x, queries, query, keys, key, factor, probability, gradient, derivative);
  gradient *= derivative;
}

// --- The bias's gradient: a thread of each query adds up its score gradients by buckets, in the order of the keys.

__device__ float *biasSumsOf(const AttentionArguments &a, int query) {
  return reinterpret_cast<float *>(a.bias.sums) + int64_t(blockIdx.x) * a.bias.count * kTile + query;
}

__device__ void beginBiasSums(const AttentionArguments &a) {
  if (threadIdx.x >= kTile)
    return;
  float *sums = biasSumsOf(a, threadIdx.x);
  for (int64_t bucket = 0; bucket < a.bias.count; ++bucket)
    sums[bucket * kTile] = 0;
}

// After keepWeights of score gradients; own rows are queries. Keys side by side often share a bucket: its sum is in a register.
__device__ void addBiasGradients(const AttentionArguments &a, const Shared &x) {
  __syncthreads();
  if (threadIdx.x >= kTile)
    return;
  const int query = threadIdx.x;
  float *sums = biasSumsOf(a, query);
  int64_t at = bucketOf(a, x.own.position[query], x.other.position[0]);
  float sum = sums[at * kTile];
#pragma unroll 1
  for (int key = 0; key < kTile; ++key) {
    const int64_t bucket = bucketOf(a, x.own.position[query], x.other.position[key]);
    if (bucket != at) {
      sums[at * kTile] = sum;
      at = bucket, sum = sums[at * kTile];
    }
    sum += x.weights[key * kTransposed + query];
  }
  sums[at * kTile] = sum;
}

template <int kSlices, bool kBias> __device__ void queryGradients(const AttentionArguments &a) {
  __shared__ Shared x;
  if constexpr (kBias)
    beginBiasSums(a);
  const int64_t blocks = (a.s * a.r + kTile - 1) / kTile;
  const int64_t head = blockIdx.x / blocks, firstRow = (blocks - 1 - blockIdx.x % blocks) * kTile; // the longest first
  if (threadIdx.x < kTile) {
    setQuery(a, x.own, threadIdx.x, firstRow + threadIdx.x, head);
    loadStatistics(a, x, x.own, threadIdx.x);
  }
  __syncthreads();
  setOwnRange(x);
  Results<kSlices> dq = {};
  for (int64_t key = 0; key < a.t; key += kTile) {
    if (!meet(x, [&](int i) { setKey(a, x.other, i, key + i, head); }))
      continue;
    float scores[4][4], gradients[4][4];
    multiply(a, x, a.q, a.k, int(a.d), a.scoreScale, scores);
    multiply(a, x, a.outputGradient, a.v, int(a.w), 1, gradients);
    const uint32_t kept = keptPairs(a, x, true, head);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int query = 4 * row() + i / 4, key = 4 * column() + i % 4;
      float &score = scores[i / 4][i % 4], &gradient = gradients[i / 4][i % 4];
      if constexpr (kBias) { // the score becomes its derivative
        float probability = score;
        scoreGradient<kBias>(a, x, x.own, query, x.other, key, keepFactor(a, kept, i), probability, gradient, score);
      } else {
        softmaxGradient<kBias>(a, x, x.own, query, x.other, key, keepFactor(a, kept, i), score, gradient);
      }
    }
    keepWeights(x, gradients);
    if constexpr (kBias) {
      addBiasGradients(a, x);
#pragma unroll
      for (int i = 0; i < 16; ++i)
        gradients[i / 4][i % 4] *= scores[i / 4][i % 4];
      keepWeights(x, gradients);
    }
    mix<kSlices>(a, x, a.k, int(a.d), dq);
  }
  storeRows<kSlices>(a, x, a.dq, int(a.d), a.s * a.r - firstRow, a.scale, dq);
}

template <int kSlices, bool kBias> __device__ void keyGradients(const AttentionArguments &a) {
  __shared__ Shared x;
  const int64_t blocks = (a.t + kTile - 1) / kTile;
  const int64_t head = blockIdx.x / blocks, firstKey = blockIdx.x % blocks * kTile;
  if (threadIdx.x < kTile)
    setKey(a, x.own, threadIdx.x, firstKey + threadIdx.x, head);
  __syncthreads();
  setOwnRange(x);
  Results<kSlices> dk = {}, dv = {};
  for (int64_t query = 0; query < a.s * a.r; query += kTile) {
    if (!meet(x, [&](int i) {
          setQuery(a, x.other, i, query + i, head);
          loadStatistics(a, x, x.other, i);
        }))
      continue;
    float scores[4][4], gradients[4][4];
    multiply(a, x, a.k, a.q, int(a.d), a.scoreScale, scores);
    multiply(a, x, a.v, a.outputGradient, int(a.w), 1, gradients);
    const uint32_t kept = keptPairs(a, x, false, head);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      softmaxGradient<kBias>(a, x, x.other, 4 * column() + i % 4, x.own, 4 * row() + i / 4, keepFactor(a, kept, i),
                      scores[i / 4][i % 4], gradients[i / 4][i % 4]);
    keepWeights(x, scores);
    mix<kSlices>(a, x, a.outputGradient, int(a.w), dv);
    keepWeights(x, gradients);
    mix<kSlices>(a, x, a.q, int(a.d), dk);
  }
  storeRows<kSlices>(a, x, a.dk, int(a.d), a.t - firstKey, a.scale, dk);
  storeRows<kSlices>(a, x, a.dv, int(a.w), a.t - firstKey, 1, dv);
}

} // namespace

// Least blocks of a multiprocessor at once. Two have registers enough for the results of 64 columns; without a number ptxas 13.0
// spills some for the sake of another block.
constexpr int attentionBlocks(int columns) { return columns <= 64 ? 2 : 1; }

#define MGC_ATTENTION_BOUNDS(columns) __launch_bounds__(kAttentionThreads, attentionBlocks(columns))
#define MGC_ATTENTION_THREE(columns, ending, bias)                                                                     \
  extern "C" __global__ void MGC_ATTENTION_BOUNDS(columns) attention_forward##ending(const AttentionArguments a) {     \
    forward<columns / kAttentionSlice, bias>(a);                                                                       \
  }                                                                                                                    \
  extern "C" __global__ void MGC_ATTENTION_BOUNDS(columns) attention_dq##ending(const AttentionArguments a) {          \
    queryGradients<columns / kAttentionSlice, bias>(a);                                                                \
  }                                                                                                                    \
  extern "C" __global__ void MGC_ATTENTION_BOUNDS(columns) attention_dkdv##ending(const AttentionArguments a) {        \
    keyGradients<columns / kAttentionSlice, bias>(a);                                                                  \
  }
// Kernels of their own where there is a bias, which takes registers.
#define MGC_ATTENTION_KERNELS(columns)                                                                                 \
  MGC_ATTENTION_THREE(columns, , false)                                                                                \
  MGC_ATTENTION_THREE(columns, _bias, true)
