// The instruction "groupRows": where each row goes when rows are put in the order of their groups, as the choices of a router
// by their experts.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Row i belongs to group numbers[i]; the rank has `groups` of all, those at its coordinate along axes. In the order of its groups,
// and in each group in that of the rows:
//   counts[g]    how many rows its group g has
//   places[i]    which place row i has; `places` where it is of another rank's group, or of none: the number behind the last group's
//   sources[p]   which row has place p; `rows` where none has
//     groups 3, numbers 2 0 2 0                            counts 2 0 2   places 2 0 3 1   sources 1 3 0 2
//     groups 2 of 4, the second rank's, numbers 2 0 3 2    counts 2 1     places 0 4 2 1   sources 0 3 2 4
// Operands numbers[rows], counts[groups], places[rows], sources[places], all i32. Any other number that is no group of a rank,
// or more rows than places, ends the step with an error that names the row or the groups, before anything is written.
struct GroupRows {
  static constexpr std::string_view kName = "groupRows";
  static constexpr WorkKind kWork = WorkKind::move;
  int64_t groups = 0, rows = 0, places = 0;
  Axes axes = {}; // axes that share out the groups
  bool operator==(const GroupRows &) const = default;

  OperandInfos operands(const Mesh &) const;
  Work work(const Mesh &) const { return {}; }
  std::string sizes() const;
  const Axes &placement() const { return axes; }
  void verify(AttributeChecks &checks) const;
};

template <typename V> constexpr void fields(V &v, Of<GroupRows>) {
  required<&GroupRows::groups, &GroupRows::rows, &GroupRows::places>(v);
  optional<&GroupRows::axes>(v);
}

} // namespace mgc::plan
