// The instruction "groupRows": where each row goes when rows are put in the order of their groups, as the choices of a router
// by their experts.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Row i belongs to group numbers[i]. In the order of the groups, and in each group in that of the rows:
//   counts[g]    how many rows group g has
//   places[i]    which place row i has
//   sources[p]   which row has place p
//     groups 3, numbers 2 0 2 0    counts 2 0 2   places 2 0 3 1   sources 1 3 0 2
// Operands numbers[rows], counts[groups], places[rows], sources[rows], all i32. A number below 0 or not below `groups` ends the
// step with an error that names the row, before anything is written.
struct GroupRows {
  static constexpr std::string_view kName = "groupRows";
  static constexpr WorkKind kWork = WorkKind::move;
  int64_t groups = 0, rows = 0;
  bool operator==(const GroupRows &) const = default;

  OperandInfos operands(const Mesh &) const;
  Work work(const Mesh &) const { return {}; }
  std::string sizes() const;
  void verify(AttributeChecks &checks) const;
};

template <typename V> void fields(V &v, Of<GroupRows>) {
  v.required("groups", &GroupRows::groups);
  v.required("rows", &GroupRows::rows);
}

} // namespace mgc::plan
