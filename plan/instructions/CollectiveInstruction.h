// The instruction "collective": ranks of a group exchange or add equal parts.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/RankGroup.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

enum class ReduceKind { sum, max };
template <> inline constexpr auto enumNames<ReduceKind> = std::to_array<std::string_view>({"sum", "max"});

// Collectives read operand 0 and write operand 1 (which may be the same buffer for all_reduce only). The
// buffer is seen as [outer, n * chunk] elements: all_gather concatenates and reduce_scatter splits the second
// dimension. bf16 is summed in f32, in the order of the group, and rounded once.
struct Collective {
  static constexpr std::string_view kName = "collective";
  static constexpr WorkKind kWork = WorkKind::collective;
  enum class Kind { allReduce, allGather, reduceScatter, allToAll, permute } kind = Kind::allReduce;
  ReduceKind reduce = ReduceKind::sum;
  DType type = DType::f32;
  Axes axes;
  std::vector<int64_t> stages; // if any: the group is the ranks of these stages, other coordinates equal
  int64_t outer = 1;           // all_gather: local [outer, chunk] -> [outer, n*chunk]; reduce_scatter: the reverse
  int64_t chunk = 0;           // elements; all_reduce, permute: outer = 1, chunk = all elements
  // permute: rank i of the group gets what rank i - 1 has, the first what the last has.
  // all_to_all: local [outer, n, middle, chunk] -> [outer, middle, n, chunk]: block j of the first n goes to
  // rank j; what rank i sent lands at position i of the second n.
  int64_t middle = 1;
  // The inverse all_to_all: [outer, middle, n, chunk] -> [outer, n, middle, chunk].
  bool splitsInner = false;
  // Size of operand 2, where a device packs the blocks of all_to_all; 0: there is none.
  int64_t workspaceBytes = 0;
  bool operator==(const Collective &) const = default;

  OperandInfos operands(const Mesh &mesh) const;
  bool mayWorkInPlace() const { return kind == Kind::allReduce; }
  Work work(const Mesh &) const { return {.type = type}; }
  std::string sizes() const;
  RankGroup group() const { return {axes, stages}; }
  // Bytes are those of ring algorithms, B those of the whole result (of all_gather), operand (of reduce_scatter, all_to_all) or
  // either (all_reduce): all_reduce 2 B (n - 1) / n, permute B, all others B (n - 1) / n.
  Communication communication(int64_t ranks) const;
  std::string agreement() const;
  void verify(AttributeChecks &checks) const;
};
template <>
inline constexpr auto enumNames<Collective::Kind> =
    std::to_array<std::string_view>({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"});

// Whether plans for the target have a workspace in which an all_to_all of more than one row packs them by ranks: what its
// communicators send lies together.
constexpr bool packsRows(Target target) { return target == Target::cuda; }
// Whether collectives of plans for the target leave the cores to concurrent matrix products. On a CPU both use the same
// cores, and only the wait for other ranks is hidden.
constexpr bool leavesCoresToProducts(Target target) { return target == Target::cuda; }

template <typename V> constexpr void fields(V &v, Of<Collective>) {
  required<&Collective::kind>(v);
  optional<&Collective::reduce>(v);
  required<&Collective::type>(v);
  optional<&Collective::axes, &Collective::stages, &Collective::outer>(v);
  required<&Collective::chunk>(v);
  optional<&Collective::middle, &Collective::splitsInner, &Collective::workspaceBytes>(v);
}

} // namespace mgc::plan
