#include "plan/instructions/AttributeChecks.h"

#include <cmath>

namespace mgc::plan {

bool AttributeChecks::arePositive(std::initializer_list<Named> sizes) {
  bool all = true;
  for (auto [name, size] : sizes)
    all &= expect(size > 0, "{} = {} must be positive", name, size);
  return all;
}

bool AttributeChecks::isNotNegative(std::string_view name, double value) {
  return expect(std::isfinite(value) && value >= 0, "{} = {} must be finite and not negative", name, value);
}

bool AttributeChecks::isFloatType(std::string_view name, DType type) {
  return expect(isFloat(type), "{} is {}, expected f32 or bf16", name, nameOf(type));
}

bool AttributeChecks::isStride(std::string_view name, int64_t stride, Checked row) {
  return expect(stride == 0 || (row && stride >= *row),
                "{} = {} is below the {} elements of a row; expected 0, for rows one after another, or at "
                "least as many",
                name, stride, row ? fmt::to_string(*row) : "more than 2^63");
}

bool AttributeChecks::areAxes(const Axes &axes) { return verifyAxesAt(checks_, place_, axes); }

bool AttributeChecks::areStages(const std::vector<int64_t> &stages) { return verifyStageList(checks_, place_, stages); }

bool AttributeChecks::isScalar(const Scalar &scalar) {
  Checked most = checkedAdd(scalar.value < 0 ? -(scalar.value + 1) : scalar.value, 1);
  for (const Scalar::Term &term : scalar.terms)
    if (areAxes(term.axes))
      most = checkedAdd(most, checkedMultiply(groupSize(plan().mesh, term.axes),
                                              term.scale < 0 ? -(term.scale + 1) + 1 : term.scale));
  return expect(most.has_value(), "a scalar's terms add up to more than 64 bits hold");
}

} // namespace mgc::plan
