#include "plan/instructions/GroupRowsInstruction.h"

#include "plan/instructions/AttributeChecks.h"

#include <limits>

namespace mgc::plan {

OperandInfos GroupRows::operands(const Mesh &) const {
  const auto written = OperandUse::written;
  return {elementsOf(DType::i32, "numbers", rows, OperandUse::read), elementsOf(DType::i32, "counts", groups, written),
          elementsOf(DType::i32, "places", rows, written), elementsOf(DType::i32, "sources", places, written)};
}

std::string GroupRows::sizes() const {
  return fmt::format("{} rows in {} groups{}", rows, groups,
                     axes.empty() ? "" : fmt::format(" of a share over {}", fmt::join(axes, " ")));
}

void GroupRows::verify(AttributeChecks &checks) const {
  checks.need(checks.arePositive({{"groups", groups}, {"rows", rows}, {"places", places}}));
  checks.expect(rows <= std::numeric_limits<int32_t>::max(), "rows = {} are more than i32 numbers", rows);
  checks.expect(places <= rows, "places = {} are more than the {} rows", places, rows);
  if (!checks.need(checks.areAxes(axes)))
    return;
  const Checked all = checkedMultiply(groups, groupSize(checks.plan().mesh, axes));
  checks.expect(all && *all <= std::numeric_limits<int32_t>::max(), "groups = {} over [{}] are more than i32 numbers",
                groups, fmt::join(axes, ", "));
}

} // namespace mgc::plan
