// See CudaAttention.h.
#include "plan/targets/CudaAttention.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <limits>

namespace mgc {

namespace {

constexpr int64_t kMostColumns = 256, kColumnsUnit = 8; // 16 bytes of bf16
constexpr int64_t kUnit = 256;                          // of parts of a workspace
constexpr int64_t kLibraryBytes = 64 << 10;             // cuDNN's own needs beside the tensors below

int64_t clamped(__int128 value) {
  return static_cast<int64_t>(std::min<__int128>(value, std::numeric_limits<int64_t>::max()));
}

__int128 heads(const plan::Attention &a) { return static_cast<__int128>(a.b) * a.g * a.r; }

// What cuDNN keeps between its kernels of backward.
__int128 libraryBackwardBytes(const plan::Attention &a, bool deterministic) {
  constexpr int64_t tile = 128;
  const __int128 scores =
      deterministic ? 2 * heads(a) * roundUp<__int128>(a.s, tile) * roundUp<__int128>(a.t, tile) : 0;
  return scores + 2 * heads(a) * a.t * a.d * (deterministic ? 2 : 4);
}

} // namespace

Status cudnnTakes(const plan::Attention &a) {
  if (a.type != plan::DType::bf16)
    return errorf("values are f32; cuDNN's kernels take bf16");
  if (a.documents)
    return errorf("sequences are packed documents");
  if (!a.isCausal() || a.s != a.t)
    return errorf("positions are not 0, 1, .. on both sides");
  if (a.dropout > 0)
    return errorf("dropout is {}: cuDNN would draw another mask", a.dropout);
  if (a.d % kColumnsUnit != 0 || a.d > kMostColumns)
    return errorf("d = {}; cuDNN takes multiples of {} up to {}", a.d, kColumnsUnit, kMostColumns);
  for (const int64_t stride : {a.qStride, a.kStride, a.vStride, a.dqStride, a.dkStride, a.dvStride})
    if (stride % kColumnsUnit != 0)
      return errorf("groups are {} elements apart; cuDNN takes multiples of {}", stride, kColumnsUnit);
  if (a.s == 0 || heads(a) == 0)
    return errorf("there are no elements");
  return Status::ok();
}

CudaAttentionWorkspace::CudaAttentionWorkspace(const plan::Attention &a, bool deterministic) {
  const __int128 count = heads(a) * a.s;
  rows = clamped(roundUp<__int128>(count * 4, kUnit));
  delta = a.backward ? rows : 0;
  dqSum = a.backward && !deterministic ? clamped(roundUp<__int128>(count * a.d * 4, kUnit)) : 0;
}

int64_t cudaAttentionWorkspaceBytes(const plan::Attention &a, bool deterministic) {
  const CudaAttentionWorkspace parts(a, deterministic);
  if (!cudnnTakes(a).isOk())
    return parts.delta; // the own kernels' only need
  const __int128 own = static_cast<__int128>(parts.rows) + parts.delta + parts.dqSum;
  return clamped(own + (a.backward ? libraryBackwardBytes(a, deterministic) : 0) + kLibraryBytes);
}

} // namespace mgc
