// The instruction "exchangeRows": rows that ranks have of groups, as tokens of experts, go to the ranks that have the groups, or
// come back from there. How many is data.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/RankGroup.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Rank r of the n ranks along axes has groups [r groups, (r + 1) groups), and counts[i, g] says how many rows rank i
// has of group g, equal on all ranks. A rank's own rows lie in the order of all groups; those of its groups by group,
// and in a group by the rank that they are of.
//     2 ranks with a group each, rows of rank 0: a0 a1 b0, of rank 1: a2 b1 b2    counts 2 1  1 2
//     there: rank 0 gets a0 a1 a2, rank 1 b0 b1 b2    back: the reverse
// Operands counts[n, n groups] i32, source and destination of `type`: [rows, width] and [places, width], with `back`
// the reverse. Places after the last row are neither read nor written. Counts below 0, or more rows than `rows` of a
// rank or than `places` of the groups of one, end the step with an error that names the rank, before any rank sends:
// all see the same counts.
struct ExchangeRows {
  static constexpr std::string_view kName = "exchangeRows";
  static constexpr WorkKind kWork = WorkKind::collective;
  bool back = false;
  DType type = DType::f32;
  int64_t groups = 0; // groups per rank
  int64_t rows = 0, places = 0, width = 0;
  Axes axes;
  bool operator==(const ExchangeRows &) const = default;

  OperandInfos operands(const Mesh &mesh) const;
  Work work(const Mesh &) const { return {.type = type}; }
  std::string sizes() const;
  RankGroup group() const { return {axes, kNoStages}; }
  // As if each group had equally many rows, all of them.
  Communication communication(int64_t ranks) const;
  std::string agreement() const;
  void verify(AttributeChecks &checks) const;
};

template <typename V> constexpr void fields(V &v, Of<ExchangeRows>) {
  optional<&ExchangeRows::back>(v);
  required<&ExchangeRows::type, &ExchangeRows::groups, &ExchangeRows::rows, &ExchangeRows::places, &ExchangeRows::width,
           &ExchangeRows::axes>(v);
}

} // namespace mgc::plan
