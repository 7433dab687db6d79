// See AttentionPanels.h. All matrix products go through one register tile: M rows, whose elements are broadcast, by two
// vectors of columns:
//   scores [keys, width]   = k [keys, d] q [d, width]           rows: keys    depth: d
//   o [w, width]          += v^T [w, keys] p [keys, width]      rows: w       depth: keys
//   dv [keys, w]          += p [keys, queries] do [queries, w]  rows: keys    depth: queries
// and backward likewise do v^T, dq and dk.
#include "runtime/kernels/AttentionPanels.h"
#include "runtime/base/Rounding.h"

#include "runtime/kernels/AttentionVectors.h"

#include <limits>
#include <type_traits>

namespace mgc {
namespace {

constexpr int kVectors = 2, kWidth = kVectors * kLanes;
// As many rows as leave registers for the operands: 16 of them without AVX-512, else 32.
constexpr int kTileRows = kLanes == 16 ? 8 : 6;
static_assert(kAttentionRows % kWidth == 0 && kWidth <= kAttentionWidest &&
              kAttentionRows / kWidth <= kAttentionPanels);
static_assert(kAttentionKeys % kTileRows == 0 && kAttentionPadding % kLanes == 0);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The operand that is broadcast: element (row, depth).
struct ByRows {
  const float *data;
  int64_t stride;
  MGC_INLINE float at(int64_t row, int64_t depth) const { return data[row * stride + depth]; }
};
struct ByColumns {
  const float *data;
  int64_t stride;
  MGC_INLINE float at(int64_t row, int64_t depth) const { return data[depth * stride + row]; }
};

template <int M, int N> struct Tile {
  Vector sums[M][N];

  template <typename Body> MGC_INLINE void each(const Body &body) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n)
        body(m, n, sums[m][n]);
  }
  // += a [M, depth] columns [depth, N vectors], rows of columns `stride` apart.
  template <typename A> MGC_INLINE void add(const A &a, const float *columns, int64_t stride, int64_t depth) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < depth; ++p) {
      Vector y[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n)
        y[n] = load(columns + p * stride + n * kLanes);
#pragma GCC unroll 16
      for (int m = 0; m < M; ++m) {
        const Vector x = broadcast(a.at(m, p));
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n)
          sums[m][n] += x * y[n];
      }
    }
  }
};

template <int M> using Rows = std::integral_constant<int, M>;

template <int M, typename Body> MGC_INLINE void lastTile(int64_t first, int64_t rows, const Body &body) {
  if constexpr (M > 0) {
    if (rows == M)
      body(first, Rows<M>());
    else
      lastTile<M - 1>(first, rows, body);
  }
}

// body(row, Rows<M>) for rows [first, last) in tiles of kTileRows and one of what is left.
template <typename Body> MGC_INLINE void forTiles(int64_t first, int64_t last, const Body &body) {
  for (; last - first >= kTileRows; first += kTileRows)
    body(first, Rows<kTileRows>());
  lastTile<kTileRows - 1>(first, last - first, body);
}

// out [keys, width] <- rows [keys, d] columns [d, width], for keys [first, last).
void scoreKeys(const float *rows, const float *columns, int64_t d, int64_t first, int64_t last, float *out) {
  forTiles(first, last, [&]<int M>(int64_t key, Rows<M>) {
    Tile<M, kVectors> tile = {};
    tile.add(ByRows{rows + key * d, d}, columns, kWidth, d);
    tile.each([&](int m, int n, Vector &sum) { store(out + (key + m) * kWidth + n * kLanes, sum); });
  });
}

// columns [d, width] <- columns * factors + rows^T [d, keys] weights [keys, width], over keys [first, last).
void mixKeys(const float *rows, const float *weights, const Vector (&factors)[kVectors], int64_t d, int64_t first,
             int64_t last, float *columns) {
  forTiles(0, d, [&]<int M>(int64_t row, Rows<M>) {
    Tile<M, kVectors> tile;
    const auto place = [&](int m, int n) { return columns + (row + m) * kWidth + n * kLanes; };
    tile.each([&](int m, int n, Vector &sum) { sum = load(place(m, n)) * factors[n]; });
    tile.add(ByColumns{rows + first * d + row, d}, weights + first * kWidth, kWidth, last - first);
    tile.each([&](int m, int n, Vector &sum) { store(place(m, n), sum); });
  });
}

// The keys of a block that one panel sees.
struct VisibleKeys {
  const AttentionQueries &queries;
  const AttentionKeys &keys;
  int64_t panel, lane; // the panel's first
  int64_t first = 0, last = 0;
  int32_t least, greatest; // positions in between are visible to the whole panel

  VisibleKeys(const AttentionQueries &queries, const AttentionKeys &keys, int64_t panel)
      : queries(queries), keys(keys), panel(panel), lane(panel * kWidth) {
    int32_t leastFirst = least = queries.first[lane], mostLast = greatest = queries.last[lane];
    for (int64_t i = lane + 1; i < lane + kWidth && i < queries.count; ++i) {
      leastFirst = queries.first[i] < leastFirst ? queries.first[i] : leastFirst;
      least = queries.first[i] > least ? queries.first[i] : least;
      greatest = queries.last[i] < greatest ? queries.last[i] : greatest;
      mostLast = queries.last[i] > mostLast ? queries.last[i] : mostLast;
    }
    last = keys.count;
    if (!isWhole())
      trim(leastFirst, mostLast);
  }
  bool isWhole() const { return least <= keys.least && keys.greatest <= greatest; }
  bool isEmpty() const { return first >= last; }
  // The panel's column among columns that hold so many elements of a query.
  template <typename T> T *column(T *columns, int64_t size) const { return columns + lane * size; }

private:
  // To keys that may be visible; the first and the last tile stay whole.
  void trim(int32_t least, int32_t greatest) {
    const auto hidden = [&](int64_t key) { return keys.positions[key] < least || keys.positions[key] > greatest; };
    while (last > first && hidden(last - 1))
      --last;
    while (first < last && hidden(first))
      ++first;
    first -= first % kTileRows;
    last += (kTileRows - last % kTileRows) % kTileRows;
    last = last < keys.count ? last : keys.count;
  }
};

// Sets scores of hidden keys to -infinity.
void hideKeys(const VisibleKeys &view, float *scores) {
  for (int64_t key = view.first; key < view.last; ++key) {
    const int32_t at = view.keys.positions[key];
    if (view.least <= at && at <= view.greatest)
      continue;
    for (int64_t n = 0; n < kVectors; ++n) {
      float *place = scores + key * kWidth + n * kLanes;
      const Integers first = load<Integers>(view.queries.first + view.lane + n * kLanes);
      const Integers last = load<Integers>(view.queries.last + view.lane + n * kLanes);
      const Integers position = Integers{} + at, visible = (first <= position) & (position <= last);
      store(place, visible ? load(place) : broadcast(-kInfinity));
    }
  }
}

// --- From products to scores: caps, slopes and biases, before softmax.

template <bool... kFlags> struct ScoreShape {};

// body(ScoreShape<whether scores are capped, whether they have slopes, whether they have biases>).
template <bool... kFlags, typename Body, typename... Flags>
MGC_INLINE void withShape(const Body &body, bool flag, Flags... flags) {
  if constexpr (sizeof...(flags) == 0)
    flag ? body(ScoreShape<kFlags..., true>()) : body(ScoreShape<kFlags..., false>());
  else
    flag ? withShape<kFlags..., true>(body, flags...) : withShape<kFlags..., false>(body, flags...);
}
template <typename Body> MGC_INLINE void withShape(const AttentionQueries &queries, const Body &body) {
  withShape<>(body, queries.cap > 0, queries.hasSlopes, queries.buckets != nullptr);
}

// The bucket of the key's distance from each query of vector n of the panel.
MGC_INLINE Integers bucketsOf(const VisibleKeys &view, int64_t key, int64_t n) {
  const uint32_t reach = view.queries.biasReach;
  const Integers query = load<Integers>(view.queries.positions + view.lane + n * kLanes);
  const Integers at = Integers{} + view.keys.positions[key], isBehind = at > query;
  Bits distance = isBehind ? (Bits)at - (Bits)query : (Bits)query - (Bits)at; // 32 bits hold the greatest
  distance = distance < reach ? distance : Bits{} + reach;
  const Bits index = isBehind ? reach + distance : reach - distance;
  Integers bucket;
  for (int i = 0; i < kLanes; ++i)
    bucket[i] = view.queries.buckets[index[i]];
  return bucket;
}

MGC_INLINE Vector biasesOf(const VisibleKeys &view, const Integers &bucket, int64_t n) {
  const Integers index = bucket + load<Integers>(view.queries.biasRows + view.lane + n * kLanes);
  Vector bias;
  for (int i = 0; i < kLanes; ++i)
    bias[i] = view.queries.biases[index[i]];
  return bias;
}

// Each query has sums of its own.
MGC_INLINE void addBiasGradients(const VisibleKeys &view, const Integers &bucket, const Vector &gradient, int64_t n) {
  float *sums = view.queries.biasSums + (view.lane + n * kLanes) * view.queries.biasBuckets;
  for (int i = 0; i < kLanes; ++i, sums += view.queries.biasBuckets)
    sums[bucket[i]] += gradient[i];
}

// Values that backward needs for one key and the panel, in addition to the scores.
struct ScoreFacts {
  Vector tangent[kVectors];  // tanh of the products, with a cap
  Integers bucket[kVectors]; // with biases
};

// Scores of one key and the panel from its products; hidden ones are -infinity and stay so.
template <bool kCaps, bool kSlopes, bool kBiases>
MGC_INLINE void shapeScores(const VisibleKeys &view, int64_t key, Vector (&scores)[kVectors], ScoreFacts &facts) {
  if constexpr (kCaps) {
    Vector(&tangent)[kVectors] = facts.tangent;
    for (int n = 0; n < kVectors; ++n)
      tangent[n] = scores[n];
    tangents(tangent);
    for (int n = 0; n < kVectors; ++n)
      scores[n] = scores[n] == -kInfinity ? scores[n] : tangent[n] * view.queries.cap;
  }
  if constexpr (kSlopes)
    for (int n = 0; n < kVectors; ++n) {
      const int64_t lane = view.lane + n * kLanes;
      const Vector position = __builtin_convertvector(load<Integers>(view.queries.positions + lane), Vector);
      const Vector distance = broadcast(static_cast<float>(view.keys.positions[key])) - position;
      scores[n] -= load(view.queries.slopes + lane) * (Vector)((Bits)distance & 0x7FFFFFFFu);
    }
  if constexpr (kBiases)
    for (int n = 0; n < kVectors; ++n) {
      facts.bucket[n] = bucketsOf(view, key, n);
      scores[n] += biasesOf(view, facts.bucket[n], n);
    }
}

template <bool kCaps, bool kSlopes, bool kBiases> void shapeAllScores(const VisibleKeys &view, float *scores) {
  for (int64_t key = view.first; key < view.last; ++key) {
    Vector row[kVectors];
    ScoreFacts unused;
    for (int n = 0; n < kVectors; ++n)
      row[n] = load(scores + key * kWidth + n * kLanes);
    shapeScores<kCaps, kSlopes, kBiases>(view, key, row, unused);
    for (int n = 0; n < kVectors; ++n)
      store(scores + key * kWidth + n * kLanes, row[n]);
  }
}

// --- Dropout.

// Factors for one key and vector n of the panel.
MGC_INLINE Vector keepFactors(const VisibleKeys &view, int64_t key, int64_t n) {
  const AttentionDropout &dropout = *view.queries.dropout;
  const Bits heads = load<Bits>(view.queries.heads + view.lane + n * kLanes);
  const Bits queries = load<Bits>(view.queries.positions + view.lane + n * kLanes);
  const bool none = dropout.threshold > 0xFFFFFFFFu;
  const uint32_t threshold = none ? 0 : static_cast<uint32_t>(dropout.threshold);
  Bits word = Bits{} + dropout.sample;
  philoxVector(word, heads, queries, Bits{} + static_cast<uint32_t>(view.keys.positions[key]), dropout.key[0],
               dropout.key[1]);
  return word >= threshold ? broadcast(none ? 0.0f : dropout.keep) : Vector{};
}

void dropKeys(const VisibleKeys &view, float *scores) {
  for (int64_t key = view.first; key < view.last; ++key)
    for (int64_t n = 0; n < kVectors; ++n) {
      float *place = scores + key * kWidth + n * kLanes;
      store(place, load(place) * keepFactors(view, key, n));
    }
}

// --- Softmax.

// M rows of scores [M, width] <- 2^(scores - shift), added to the sums.
template <int M> MGC_INLINE void exponentiate(float *scores, const Vector (&shift)[kVectors], Vector (&sum)[kVectors]) {
  Vector p[M * kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < M * kVectors; ++i)
    p[i] = load(scores + i * kLanes) - shift[i % kVectors];
  powersOfTwo(p);
#pragma GCC unroll 4
  for (int i = 0; i < M * kVectors; ++i) {
    store(scores + i * kLanes, p[i]);
    sum[i % kVectors] += p[i];
  }
}

// scores <- 2^(scores - new maximum), added to the running sum. Gives the factor for all that was summed up before.
void softmaxStep(const VisibleKeys &view, AttentionQueries &queries, float *scores, Vector (&factors)[kVectors]) {
  float *shifts = queries.shift + view.lane, *sums = queries.sum + view.lane;
  Vector maxima[kVectors], shift[kVectors], sum[kVectors];
  for (int n = 0; n < kVectors; ++n)
    maxima[n] = load(shifts + n * kLanes);
  for (int64_t key = view.first; key < view.last; ++key)
    for (int n = 0; n < kVectors; ++n)
      maxima[n] = larger(load(scores + key * kWidth + n * kLanes), maxima[n]); // NaN is found by its power
  for (int n = 0; n < kVectors; ++n) {
    // No key visible so far: 2^(-inf - 0) = 0, and NaN stays NaN.
    shift[n] = maxima[n] == -kInfinity ? Vector{} : maxima[n];
    factors[n] = load(shifts + n * kLanes) - shift[n];
  }
  powersOfTwo(factors);
  for (int n = 0; n < kVectors; ++n)
    sum[n] = load(sums + n * kLanes) * factors[n];
  int64_t key = view.first;
  for (; key + 2 <= view.last; key += 2)
    exponentiate<2>(scores + key * kWidth, shift, sum);
  for (; key < view.last; ++key)
    exponentiate<1>(scores + key * kWidth, shift, sum);
  for (int n = 0; n < kVectors; ++n) {
    store(shifts + n * kLanes, maxima[n]);
    store(sums + n * kLanes, sum[n]);
  }
}

void forward(AttentionQueries &queries, const AttentionKeys &keys) {
  for (int64_t panel = 0; panel * kWidth < queries.count; ++panel) {
    const VisibleKeys view(queries, keys, panel);
    if (view.isEmpty())
      continue;
    scoreKeys(keys.k, view.column(queries.q, queries.d), queries.d, view.first, view.last, keys.scores);
    if (!view.isWhole())
      hideKeys(view, keys.scores);
    if (queries.cap > 0 || queries.hasSlopes || queries.buckets)
      withShape(queries, [&]<bool... kFlags>(ScoreShape<kFlags...>) { shapeAllScores<kFlags...>(view, keys.scores); });
    Vector factors[kVectors];
    softmaxStep(view, queries, keys.scores, factors);
    if (queries.dropout)
      dropKeys(view, keys.scores);
    mixKeys(keys.v, keys.scores, factors, queries.w, view.first, view.last, view.column(queries.o, queries.w));
  }
}

// For scores s, or what they are made of, and probability gradients dp, with the factors f of dropout (1 without):
//   p = 2^(s - shift);  s <- p f;  dp <- p (dp f - delta), and with a cap, s = cap tanh(x), that times 1 - tanh(x)^2
// Before that it is added to the gradients of biases.
template <bool kDropout, bool kCaps, bool kSlopes, bool kBiases>
void softmaxGradient(const VisibleKeys &view, float *scores, float *gradients) {
  Vector shift[kVectors], delta[kVectors];
  for (int n = 0; n < kVectors; ++n) {
    shift[n] = load(view.queries.shift + view.lane + n * kLanes);
    delta[n] = load(view.queries.sum + view.lane + n * kLanes);
  }
  for (int64_t key = view.first; key < view.last; ++key) {
    Vector p[kVectors];
    ScoreFacts facts;
    for (int n = 0; n < kVectors; ++n)
      p[n] = load(scores + key * kWidth + n * kLanes);
    shapeScores<kCaps, kSlopes, kBiases>(view, key, p, facts);
    for (int n = 0; n < kVectors; ++n) { // above 0 by rounding only
      p[n] = p[n] - shift[n];
      p[n] = p[n] > broadcast(127) ? broadcast(127) : p[n];
    }
    powersOfTwo(p);
    for (int n = 0; n < kVectors; ++n) {
      const int64_t place = key * kWidth + n * kLanes;
      const Vector dp = load(gradients + place), factor = kDropout ? keepFactors(view, key, n) : Vector{};
      store(scores + place, kDropout ? p[n] * factor : p[n]);
      const Vector ds = p[n] * ((kDropout ? dp * factor : dp) - delta[n]);
      if constexpr (kBiases)
        addBiasGradients(view, facts.bucket[n], ds, n);
      store(gradients + place, kCaps ? ds * (1.0f - facts.tangent[n] * facts.tangent[n]) : ds);
    }
  }
}

void backward(const AttentionQueries &queries, const AttentionKeys &keys, AttentionRanges &ranges) {
  const int64_t d = queries.d, w = queries.w;
  const Vector ones[kVectors] = {broadcast(1), broadcast(1)};
  for (int64_t panel = 0; panel * kWidth < queries.count; ++panel) {
    const VisibleKeys view(queries, keys, panel);
    ranges.first[panel] = view.first, ranges.last[panel] = view.last;
    if (view.isEmpty())
      continue;
    float *scores = keys.scores + view.lane * kAttentionKeys;
    float *gradients = keys.gradients + view.lane * kAttentionKeys;
    scoreKeys(keys.k, view.column(queries.q, d), d, view.first, view.last, scores);
    scoreKeys(keys.v, view.column(queries.outputGradient, w), w, view.first, view.last, gradients);
    if (!view.isWhole())
      hideKeys(view, scores);
    withShape(queries, [&]<bool... kFlags>(ScoreShape<kFlags...>) {
      (queries.dropout ? softmaxGradient<true, kFlags...> : softmaxGradient<false, kFlags...>)(view, scores, gradients);
    });
    mixKeys(keys.k, gradients, ones, d, view.first, view.last, view.column(queries.dq, d));
  }
}

// N vectors of columns of out [keys, size] += weights [keys, queries] rows [queries, size], `columns` of which are
// there.
template <int N>
void addColumns(const AttentionQueries &queries, const AttentionKeys &keys, const AttentionRanges &ranges,
                const float *weights, const float *rows, int64_t size, int64_t columns, AttentionKeys::Rows out) {
  const int64_t padded = attentionPadded(size);
  forTiles(0, keys.count, [&]<int M>(int64_t key, Rows<M>) {
    for (int m = 0; m < M; ++m)
      __builtin_prefetch(out.first + (key + m) * out.stride, 1);
    Tile<M, N> tile = {};
    for (int64_t panel = 0; panel * kWidth < queries.count; ++panel)
      if (ranges.first[panel] <= key && key < ranges.last[panel])
        tile.add(ByRows{weights + (panel * kAttentionKeys + key) * kWidth, kWidth}, rows + panel * kWidth * padded,
                 padded, kWidth);
    tile.each([&](int m, int n, Vector &sum) {
      float *place = out.first + (key + m) * out.stride + n * kLanes;
      if (columns >= (n + 1) * kLanes)
        store(place, load(place) + sum);
      else
        for (int64_t j = 0; j < columns - n * kLanes; ++j)
          place[j] += sum[j];
    });
  });
}

void addRows(const AttentionQueries &queries, const AttentionKeys &keys, const AttentionRanges &ranges,
             const float *weights, const float *rows, int64_t size, AttentionKeys::Rows out) {
  int64_t column = 0;
  for (; size - column > kLanes; column += kWidth)
    addColumns<kVectors>(queries, keys, ranges, weights, rows + column, size, size - column,
                         {out.first + column, out.stride});
  if (column < size)
    addColumns<1>(queries, keys, ranges, weights, rows + column, size, size - column, {out.first + column, out.stride});
}

void addKeyGradients(const AttentionQueries &queries, const AttentionKeys &keys, const AttentionRanges &ranges) {
  addRows(queries, keys, ranges, keys.scores, queries.outputGradientRows, queries.w, keys.dv);
  addRows(queries, keys, ranges, keys.gradients, queries.qRows, queries.d, keys.dk);
}

void pack(const float *const *rows, int64_t count, int64_t d, float scale, float *columns) {
  const int64_t whole = d - d % kLanes;
  for (int64_t lane = 0; lane < count; lane += kLanes) {
    float *to = columns + lane / kWidth * kWidth * d + lane % kWidth;
    const auto row = [&](int64_t i) { return lane + i < count ? rows[lane + i] : nullptr; };
    for (int64_t j = 0; j < whole; j += kLanes) {
      Vector x[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        x[i] = row(i) ? load(row(i) + j) * scale : Vector{};
      transpose(x);
      for (int64_t i = 0; i < kLanes; ++i)
        store(to + (j + i) * kWidth, x[i]);
    }
    for (int64_t j = whole; j < d; ++j)
      for (int64_t i = 0; i < kLanes; ++i)
        to[j * kWidth + i] = row(i) ? row(i)[j] * scale : 0;
  }
  // The rest of the last panel.
  for (int64_t lane = roundUp(count, kLanes); lane % kWidth; lane += kLanes)
    for (int64_t j = 0; j < d; ++j)
      store(columns + (lane / kWidth * d + j) * kWidth + lane % kWidth, Vector{});
}

void unpack(const float *columns, const float *factors, int64_t count, int64_t d, float *const *rows) {
  const int64_t whole = d - d % kLanes;
  for (int64_t lane = 0; lane < count; lane += kLanes) {
    const float *from = columns + lane / kWidth * kWidth * d + lane % kWidth;
    const Vector factor = load(factors + lane);
    const int64_t there = count - lane < kLanes ? count - lane : kLanes;
    for (int64_t j = 0; j < whole; j += kLanes) {
      Vector x[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        x[i] = load(from + (j + i) * kWidth) * factor;
      transpose(x);
      for (int64_t i = 0; i < there; ++i)
        store(rows[lane + i] + j, x[i]);
    }
    for (int64_t j = whole; j < d; ++j)
      for (int64_t i = 0; i < there; ++i)
        rows[lane + i][j] = from[j * kWidth + i] * factors[lane + i];
  }
}

} // namespace

namespace MGC_ATTENTION_TARGET {
#define MGC_QUOTE(name) #name
#define MGC_NAME_OF(name) MGC_QUOTE(name)
extern const AttentionKernels kernels;
const AttentionKernels kernels = {MGC_NAME_OF(MGC_ATTENTION_TARGET), pack, unpack, forward, backward, addKeyGradients};
} // namespace MGC_ATTENTION_TARGET

} // namespace mgc
