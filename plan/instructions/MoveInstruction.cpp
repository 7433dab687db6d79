#include "plan/instructions/MoveInstruction.h"

#include "plan/instructions/AttributeChecks.h"

namespace mgc::plan {

static OperandInfo bytesOf(std::string_view name, Checked bytes, OperandUse use, bool isElementwise) {
  return {.name = name, .bytes = bytes, .use = use, .isElementwise = isElementwise};
}

OperandInfos Move::operands(const Mesh &mesh) const {
  const Checked part = kind == Kind::slice ? checkedMultiply(outer, chunkBytes) : Checked(bytes);
  const bool isElementwise = kind == Kind::copy || kind == Kind::demote;
  const OperandInfo to = bytesOf("destination", part, OperandUse::written, isElementwise);
  if (kind == Kind::fill)
    return {to};
  const Checked whole = kind == Kind::slice ? checkedMultiply(part, groupSize(mesh, axes)) : part;
  return {bytesOf("source", whole, OperandUse::read, isElementwise), to};
}

std::string Move::sizes() const { return fmt::format("{} bytes", kind == Kind::slice ? outer * chunkBytes : bytes); }

void Move::verify(AttributeChecks &checks) const {
  if (kind == Kind::slice)
    checks.arePositive({{"outer", outer}, {"chunkBytes", chunkBytes}});
  else
    checks.expect(bytes >= 0, "bytes = {} is negative", bytes);
  checks.need(checks.areAxes(axes));
}

} // namespace mgc::plan
