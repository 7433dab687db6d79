#include "plan/instructions/HostCopyInstruction.h"

#include "plan/instructions/AttributeChecks.h"

namespace mgc::plan {

OperandInfos HostCopy::operands(const Mesh &) const {
  const bool isIn = direction == Direction::in;
  return {{.name = "source", .bytes = bytes, .use = OperandUse::read, .isOnHost = isIn},
          {.name = "destination", .bytes = bytes, .use = OperandUse::written, .isOnHost = !isIn}};
}

std::string HostCopy::sizes() const { return fmt::format("{} bytes {}", bytes, nameOf(direction)); }

void HostCopy::verify(AttributeChecks &checks) const {
  checks.need(checks.arePositive({{"bytes", bytes}}));
  checks.need(checks.isNamed("direction", direction));
}

} // namespace mgc::plan
