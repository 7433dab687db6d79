#include "plan/instructions/RowKernelInstruction.h"

#include "plan/instructions/AttributeChecks.h"

#include <algorithm>
#include <cctype>

namespace mgc::plan {

OperandInfos RowKernel::operands(const Mesh &) const {
  OperandInfos infos;
  for (const RowKernel::Operand &operand : uses)
    infos.push_back({.name = "of the kernel",
                     .bytes = operand.bytes,
                     .use = operand.use,
                     .rowBytes = operand.rowBytes,
                     .rowStride = operand.rowStride,
                     .isCounted = operand.counted});
  return infos;
}

Work RowKernel::work(const Mesh &) const { return {.flops = flops, .bytes = bytes}; }

std::string RowKernel::kernel(std::string_view) const { return symbol; }

std::vector<const Scalar *> RowKernel::runScalars() const {
  std::vector<const Scalar *> all;
  for (const Scalar &scalar : scalars)
    all.push_back(&scalar);
  return all;
}

static void verifyUse(AttributeChecks &checks, const RowKernel::Operand &operand) {
  const auto [use, bytes, rowBytes, rowStride, counted] = operand;
  const bool isDense = rowStride == 0 && rowBytes == 0;
  const bool areRows =
      rowStride >= rowBytes && rowBytes > 0 && bytes > 0 && bytes % std::max<int64_t>(rowBytes, 1) == 0;
  checks.isNamed("use", use);
  checks.need(checks.expect(bytes >= 0 && (isDense || areRows),
                            "an operand of {} bytes in rows of {}, {} apart; expected whole rows that do not overlap",
                            bytes, rowBytes, rowStride));
}

void RowKernel::verify(AttributeChecks &checks) const {
  const auto isOfIdentifier = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
  checks.expect(!symbol.empty() && std::ranges::all_of(symbol, isOfIdentifier) && !symbol.ends_with(kNeedsSuffix),
                "symbol '{}' names no row kernel; expected letters, digits and _, and no {} at the end", symbol,
                kNeedsSuffix);
  checks.expect(range >= 0, "range = {} is negative", range);
  checks.isNotNegative("flops", flops);
  checks.isNotNegative("bytes", bytes);
  for (const Scalar &scalar : scalars)
    checks.isScalar(scalar);
  for (const RowKernel::Operand &operand : uses)
    verifyUse(checks, operand);
}

} // namespace mgc::plan
