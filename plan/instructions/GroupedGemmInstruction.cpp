#include "plan/instructions/GroupedGemmInstruction.h"

#include "plan/instructions/AttributeChecks.h"

#include <algorithm>

namespace mgc::plan {

OperandInfos GroupedGemm::operands(const Mesh &) const {
  const bool isSums = form == Form::sums;
  const Checked a = checkedMultiply(rows, isSums ? m : k),
                b = isSums ? checkedMultiply(rows, n) : checkedProduct({groups, k, n}),
                c = isSums ? checkedProduct({groups, m, n}) : checkedMultiply(rows, n);
  OperandInfos infos = {countedRows(elementsOf(inputType, "A", a)), elementsOf(inputType, "B", b),
                        elementsOf(DType::i32, "counts", groups),
                        elementsOf(outputType, "C", c, accumulate ? OperandUse::updated : OperandUse::written)};
  infos[1].isCounted = isSums, infos[3].isCounted = !isSums;
  infos[2].isWholeValue = true;
  return infos;
}

// The work if all groups had equally many rows.
Work GroupedGemm::work(const Mesh &) const {
  const int64_t each = std::max<int64_t>(rows / std::max<int64_t>(groups, 1), 1), other = form == Form::sums ? m : k;
  const ProductSizes product = form == Form::sums ? ProductSizes{m, n, each, groups} : ProductSizes{each, n, k, groups};
  return {.type = inputType, .flops = 2.0 * double(rows) * double(n) * double(other), .product = product};
}

std::string GroupedGemm::sizes() const {
  const bool isSums = form == Form::sums;
  return fmt::format("{} groups of {} rows: {}x{} {}{}{}", groups, rows, n, isSums ? m : k, nameOf(form),
                     transposeB ? " T" : "", inputType == DType::bf16 ? " bf16" : "");
}

void GroupedGemm::verify(AttributeChecks &checks) const {
  if (!checks.need(checks.isNamed("form", form)))
    return;
  const bool isSums = form == Form::sums;
  checks.need(checks.arePositive({{"groups", groups}, {"rows", rows}, {"n", n}, {isSums ? "m" : "k", isSums ? m : k}}));
  checks.expect((isSums ? k : m) == 0, "form {} has {} = {}, expected 0", nameOf(form), isSums ? "k" : "m",
                isSums ? k : m);
  checks.expect(!isSums || !transposeB, "transposeB of form sums, whose B is rows");
  checks.expect(isSums || !accumulate, "accumulate of form rows, of which only rows with data are written");
  checks.isFloatType("inputType", inputType);
  checks.isFloatType("outputType", outputType);
  checks.expect(inputType != DType::f32 || outputType != DType::bf16,
                "outputType bf16 of f32 operands; expected f32, or operands of bf16");
}

} // namespace mgc::plan
