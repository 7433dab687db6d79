#include "plan/instructions/ExchangeRowsInstruction.h"

#include "plan/instructions/AttributeChecks.h"

#include <limits>

namespace mgc::plan {

OperandInfos ExchangeRows::operands(const Mesh &mesh) const {
  const int64_t ranks = groupSize(mesh, axes);
  OperandInfos infos = {
      elementsOf(DType::i32, "counts", checkedProduct({ranks, ranks, groups}), OperandUse::read),
      countedRows(elementsOf(type, "source", checkedMultiply(back ? places : rows, width))),
      countedRows(elementsOf(type, "destination", checkedMultiply(back ? rows : places, width), OperandUse::written))};
  infos[0].isWholeValue = true;
  return infos;
}

std::string ExchangeRows::sizes() const {
  return fmt::format("{} rows of {} {} {} {} places over {}", rows, width, nameOf(type), back ? "from" : "to", places,
                     fmt::join(axes, " "));
}

Communication ExchangeRows::communication(int64_t ranks) const {
  const double bytes = double(rows) * double(width) * double(sizeInBytes(type));
  return {kName, CommunicationPattern::direct, bytes * double(ranks - 1) / double(ranks)};
}

std::string ExchangeRows::agreement() const {
  return fmt::format("{} of {} groups, {} rows, {} places of {} {}{} over [{}]", kName, groups, rows, places, width,
                     nameOf(type), back ? ", back," : "", fmt::join(axes, ", "));
}

void ExchangeRows::verify(AttributeChecks &checks) const {
  checks.need(checks.arePositive({{"groups", groups}, {"rows", rows}, {"places", places}, {"width", width}}));
  checks.isFloatType("type", type);
  const Checked largest = checkedAdd(rows, places);
  checks.expect(largest && *largest <= std::numeric_limits<int32_t>::max(),
                "rows = {} and places = {} are more than i32 counts", rows, places);
  checks.expect(!axes.empty(), "exchangeRows over no axes; expected the axes that share out the groups");
  checks.need(checks.areAxes(axes));
}

} // namespace mgc::plan
