// See AttentionWorkspace.h.
#include "plan/targets/AttentionWorkspace.h"
#include "plan/RelativeBuckets.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <limits>

namespace mgc {

namespace {

// Elements of the queries of a block: 64 KB, so that the data of the block stays in the second-level cache.
// More queries in a block read keys and values from farther away less often.
constexpr int64_t kBlockElements = 16384, kFewestRows = 64;

// Sums up the parts of a workspace, or returns their addresses when there is a base.
class WorkspaceLayout {
public:
  explicit WorkspaceLayout(char *base) : base_(base) {}
  template <typename T> void add(T *&pointer, __int128 count) {
    pointer = base_ ? reinterpret_cast<T *>(base_ + static_cast<int64_t>(bytes_)) : nullptr;
    bytes_ += roundUp(count * static_cast<int64_t>(sizeof(T)), plan::kAlignment);
  }
  __int128 bytes() const { return bytes_; }

private:
  char *base_;
  __int128 bytes_ = 0;
};

} // namespace

// Blocks of about equal sizes.
AttentionWorkspace::AttentionWorkspace(const plan::Attention &attention) : a_(attention) {
  constexpr int64_t unit = kAttentionWidest;
  const __int128 all = std::max<__int128>(static_cast<__int128>(a_.s) * a_.r, 1);
  const int64_t most =
      std::clamp(kBlockElements / std::max(a_.d, a_.valueSize()) / unit * unit, kFewestRows, kAttentionRows);
  const __int128 fewest = divideUp(all, most);
  rows_ = static_cast<int64_t>(roundUp(divideUp(all, fewest), unit));
  blocks_ = divideUp(all, rows_);
}

// The number of tasks, or `most` if that is less.
__int128 AttentionWorkspace::tasks(int64_t most) const {
  return std::min<__int128>(std::min<__int128>(heads(), most) * std::min<__int128>(blocks_, most), most);
}

int64_t AttentionWorkspace::lanes() const { return static_cast<int64_t>(tasks(kAttentionLanes)); }

__int128 AttentionWorkspace::layOut(char *base, AttentionLane &lane) const {
  WorkspaceLayout layout(base);
  const auto times = [](int64_t rows, __int128 size) { return rows * size; };
  const auto padded = [](int64_t size) { return roundUp<__int128>(size, kAttentionPadding); };
  const int64_t d = a_.d, w = a_.valueSize();
  layout.add(lane.q, times(rows_, d));
  layout.add(lane.k, times(kAttentionKeys, d));
  layout.add(lane.v, times(kAttentionKeys, w));
  layout.add(lane.scores, kAttentionKeys * (a_.backward ? rows_ : kAttentionWidest));
  layout.add(lane.o, a_.backward ? 0 : times(rows_, w));
  layout.add(lane.outputGradient, a_.backward ? times(rows_, w) : 0);
  layout.add(lane.dq, a_.backward ? times(rows_, d) : 0);
  layout.add(lane.qRows, a_.backward ? times(rows_, padded(d)) : 0);
  layout.add(lane.outputGradientRows, a_.backward ? times(rows_, padded(w)) : 0);
  layout.add(lane.gradients, a_.backward ? kAttentionKeys * rows_ : 0);
  layout.add(lane.converted, a_.type == plan::DType::f32 ? 0 : times(rows_, std::max(d, w)));
  layout.add(lane.biasSums, a_.backward ? times(rows_, a_.biasBuckets) : 0);
  return layout.bytes();
}

// Beyond 2^94 elements, which no memory has, as many.
__int128 AttentionWorkspace::layOutBias(char *base, AttentionBias &bias) const {
  bias = {};
  if (!a_.hasBias())
    return 0;
  const __int128 most = static_cast<__int128>(1) << 94, wide = std::numeric_limits<int64_t>::max();
  const __int128 rows = std::min<__int128>(a_.r, wide) * a_.biasBuckets; // at most 2^126
  const auto times = [&](__int128 count) { return rows > most / std::max<__int128>(count, 1) ? most : rows * count; };
  WorkspaceLayout layout(base);
  layout.add(bias.buckets, plan::distancesOf(a_.biasMaxDistance));
  layout.add(bias.values, times(a_.g));
  layout.add(bias.sums, a_.backward ? times(tasks(std::numeric_limits<int64_t>::max())) : 0);
  return layout.bytes();
}

__int128 AttentionWorkspace::turnBytes() const {
  const __int128 turns = a_.backward ? tasks(std::numeric_limits<int64_t>::max()) : 0;
  return roundUp(turns * static_cast<int64_t>(sizeof(AttentionTurn)), plan::kAlignment);
}

// As much as 128 bits hold: two factors of 64 bits each may be one too many.
__int128 AttentionWorkspace::sumBytes() const {
  if (!a_.backward || a_.type == plan::DType::f32 || a_.resultsInF32)
    return 0;
  const __int128 most = std::numeric_limits<int64_t>::max();
  const __int128 rows = std::min(std::min(heads(), most) * a_.t, most);
  const __int128 elements = rows * a_.d + rows * a_.valueSize();
  const __int128 bytes = std::min(elements, 2 * most) * static_cast<int64_t>(sizeof(float));
  return roundUp(bytes, plan::kAlignment);
}

__int128 AttentionWorkspace::bytes() const {
  AttentionLane unused;
  AttentionBias bias;
  return turnBytes() + sumBytes() + layOutBias(nullptr, bias) + lanes() * layOut(nullptr, unused);
}

AttentionTurn *AttentionWorkspace::turns(void *workspace) const { return static_cast<AttentionTurn *>(workspace); }

float *AttentionWorkspace::keySums(void *workspace) const {
  return reinterpret_cast<float *>(static_cast<char *>(workspace) + static_cast<int64_t>(turnBytes()));
}

AttentionBias AttentionWorkspace::bias(void *workspace) const {
  AttentionBias bias;
  layOutBias(static_cast<char *>(workspace) + static_cast<int64_t>(turnBytes() + sumBytes()), bias);
  return bias;
}

AttentionLane AttentionWorkspace::lane(void *workspace, int64_t index) const {
  AttentionLane lane;
  AttentionBias bias;
  const __int128 offset = turnBytes() + sumBytes() + layOutBias(nullptr, bias) + index * layOut(nullptr, lane);
  layOut(static_cast<char *>(workspace) + static_cast<int64_t>(offset), lane);
  return lane;
}

int64_t attentionWorkspaceBytes(const plan::Attention &attention) {
  if (attention.b <= 0 || attention.g <= 0 || attention.d <= 0)
    return 0;
  const __int128 bytes = AttentionWorkspace(attention).bytes();
  return static_cast<int64_t>(std::min<__int128>(bytes, std::numeric_limits<int64_t>::max()));
}

} // namespace mgc
