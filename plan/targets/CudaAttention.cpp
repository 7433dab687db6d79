// See CudaAttention.h.
#include "plan/targets/CudaAttention.h"
#include "plan/SequenceOrder.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace mgc {

namespace {

constexpr int64_t kMostColumns = 256, kColumnsUnit = 8; // 16 bytes of bf16
constexpr int64_t kUnit = 256;                          // parts of a workspace are multiples of it
constexpr int64_t kLibraryBytes = 64 << 10;             // cuDNN's own needs in addition to the tensors below

int64_t clamped(__int128 value) {
  return static_cast<int64_t>(std::min<__int128>(value, std::numeric_limits<int64_t>::max()));
}

int64_t padded(__int128 bytes) { return clamped(roundUp<__int128>(bytes, kUnit)); }

__int128 heads(const plan::Attention &a) { return static_cast<__int128>(a.b) * a.g * a.r; }

int64_t rowsBytes(const plan::Attention &a) { return padded(4 * heads(a) * a.s); }

// The own kernels' sums for the bias's gradient: for each bucket and query, whose blocks are whole.
int64_t biasSumsBytes(const plan::Attention &a) {
  if (!a.hasBias())
    return 0;
  const __int128 most = std::numeric_limits<int64_t>::max();
  const __int128 rows = roundUp<__int128>(static_cast<__int128>(a.s) * a.r, kOwnAttentionRows);
  const __int128 queries =
      std::min(std::min(rows, most) * std::min<__int128>(static_cast<__int128>(a.b) * a.g, most), most);
  return padded(4 * std::min(queries * a.biasBuckets, most));
}

// Where each query sees all keys, the order of queries and keys does not matter.
bool seesAll(const plan::Attention &a) { return !a.causal && a.window <= 0; }

// Between the first key that a query at this position sees and the one behind the last.
int64_t firstKeyOf(const plan::Attention &a, int64_t position) {
  return a.window > 0 ? std::max<int64_t>(0, position - a.window + 1) : 0;
}
int64_t endOfKeysOf(const plan::Attention &a, int64_t position) {
  return a.causal ? position + 1 : position < a.t - a.window ? position + a.window : a.t;
}

// A run of that many queries whose last is at most the `end`-th position: the most keys it sees.
__int128 mostKeys(const plan::Attention &a, __int128 queries, __int128 end) {
  const __int128 all = a.causal ? end : a.t, sides = a.causal ? 1 : 2;
  return a.window > 0 ? std::min<__int128>(all, queries + sides * (a.window - 1)) : all;
}

// A part of a zigzag order is two runs of s / 2 queries, of which the second ends as far before the sequence's end as the first
// begins after its begin; in the last part they meet in the middle.
bool hasTwoRuns(const plan::Attention &a) { return !seesAll(a) && a.zigzag > 1 && a.s < a.t; }

// The sizes that a run of any part can have.
struct RunSize {
  __int128 queries, keys;
};
std::array<RunSize, 2> runSizes(const plan::Attention &a) {
  const __int128 s = a.s, t = a.t;
  if (!hasTwoRuns(a))
    return {RunSize{s, mostKeys(a, s, t)}, {}};
  return {RunSize{s / 2, mostKeys(a, s / 2, t)}, RunSize{s, mostKeys(a, s, (t + s) / 2)}};
}

// The most keys that the runs of a part have together: causal, p (s / 2) and t - (p - 1) (s / 2) without a window.
__int128 keysOfAllRuns(const plan::Attention &a) {
  const __int128 half = a.s / 2;
  if (!hasTwoRuns(a))
    return runSizes(a)[0].keys;
  const __int128 together = a.causal ? a.t + half : 2 * static_cast<__int128>(a.t);
  return std::min(together, 2 * mostKeys(a, half, a.t));
}

// Bytes that cuDNN keeps between its kernels of backward.
__int128 libraryBackwardBytes(const plan::Attention &a, bool deterministic) {
  constexpr int64_t tile = 128;
  __int128 most = 0;
  for (const RunSize &run : runSizes(a)) {
    const __int128 keys = roundUp<__int128>(run.keys, tile);
    const __int128 scores = roundUp<__int128>(run.queries, tile) * keys, width = a.d + a.valueSize();
    const __int128 gradients = deterministic ? 2 * run.keys * width
                               : a.causal    ? 4 * run.keys * width
                                             : (4 * keys + 2 * run.keys) * width;
    most = std::max(most, 2 * (deterministic ? scores : 0) + gradients);
  }
  return heads(a) * most;
}

Status isInOrder(const plan::Attention &a) {
  if (seesAll(a))
    return Status::ok();
  if (a.zigzag == 0)
    return errorf("no order of the positions is stated");
  const int64_t parts = a.t / a.s;
  if (a.t % a.s != 0 || !plan::isOrder(a.t, a.zigzag) || (a.zigzag > 1 && a.zigzag % parts != 0))
    return errorf("{} queries are no part of {} keys in the order of {} ranks", a.s, a.t, a.zigzag);
  return Status::ok();
}

} // namespace

Status cudnnTakes(const plan::Attention &a) {
  if (a.type != plan::DType::bf16)
    return errorf("values are f32; cuDNN's kernels take bf16");
  if (a.resultsInF32)
    return errorf("results are f32, to be merged; cuDNN's are bf16");
  if (a.documents)
    return errorf("sequences are packed documents");
  if (a.ends)
    return errorf("samples or documents have ends");
  if (!a.slopes.empty())
    return errorf("heads have slopes");
  if (a.hasBias())
    return errorf("scores have a bias");
  if (a.sinks)
    return errorf("heads have sinks");
  if (a.s == 0 || a.t == 0 || heads(a) == 0)
    return errorf("there are no elements");
  MGC_TRY(isInOrder(a));
  if (a.dropout > 0)
    return errorf("dropout is {}: cuDNN would draw another mask", a.dropout);
  for (const auto &[name, size] : {std::pair("d", a.d), std::pair("w", a.valueSize())})
    if (size % kColumnsUnit != 0 || size > kMostColumns)
      return errorf("{} = {}; cuDNN takes multiples of {} up to {}", name, size, kColumnsUnit, kMostColumns);
  for (const int64_t stride : {a.qStride, a.kStride, a.vStride, a.dqStride, a.dkStride, a.dvStride})
    if (stride % kColumnsUnit != 0)
      return errorf("groups are {} elements apart; cuDNN takes multiples of {}", stride, kColumnsUnit);
  return Status::ok();
}

std::vector<CudaAttentionRun> cudaAttentionRuns(const plan::Attention &a, int64_t part) {
  if (seesAll(a))
    return {{0, a.s, 0, 0, a.t}};
  std::vector<CudaAttentionRun> runs;
  int64_t query = 0;
  for (const plan::OrderRun &run : plan::positionsOfPart(part, a.t / a.s, a.t, a.zigzag)) {
    const int64_t firstKey = firstKeyOf(a, run.position);
    const int64_t endOfKeys = endOfKeysOf(a, run.position + run.count - 1);
    runs.push_back({query, run.count, run.position, firstKey, endOfKeys - firstKey});
    query += run.count;
  }
  return runs;
}

CudaAttentionWorkspace::CudaAttentionWorkspace(const plan::Attention &a, bool deterministic) : rows(rowsBytes(a)) {
  const __int128 queryElements = heads(a) * a.s * a.d, outputElements = heads(a) * a.s * a.valueSize();
  const __int128 groupBytes = static_cast<__int128>(2) * a.b * a.g; // one element in each group
  const bool isWhole = a.s == a.t || seesAll(a);
  delta = a.backward ? rows : 0;
  dqSum = a.backward && !deterministic ? padded(4 * queryElements) : 0;
  const int64_t zigzag = seesAll(a) ? 1 : a.zigzag;
  if (zigzag > 1)
    keys = padded(a.t * groupBytes * a.d), values = padded(a.t * groupBytes * a.valueSize());
  if (zigzag > 1 && zigzag > a.t / a.s)
    queries = padded(2 * queryElements), outputs = padded(2 * outputElements);
  if (!a.backward)
    return;
  queryGradients = queries, outputGradients = outputs;
  if (zigzag > 1 || !isWhole)
    keyGradients = padded(keysOfAllRuns(a) * groupBytes * a.d),
    valueGradients = padded(keysOfAllRuns(a) * groupBytes * a.valueSize());
}

int64_t CudaAttentionWorkspace::bytes() const {
  __int128 all = 0;
  for (const int64_t part : {rows, delta, dqSum, keys, values, queries, outputs, queryGradients, outputGradients,
                             keyGradients, valueGradients})
    all += part;
  return clamped(all);
}

int64_t cudaAttentionWorkspaceBytes(const plan::Attention &a, bool deterministic) {
  if (!cudnnTakes(a).isOk())
    return a.backward ? clamped(static_cast<__int128>(rowsBytes(a)) + biasSumsBytes(a))
                      : 0; // for delta and the bias's gradient
  const __int128 own = CudaAttentionWorkspace(a, deterministic).bytes();
  return clamped(own + (a.backward ? libraryBackwardBytes(a, deterministic) : 0) + kLibraryBytes);
}

} // namespace mgc
