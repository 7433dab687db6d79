// Checks of an instruction's attributes, for the verify() of each kind. In: a plan whose mesh is sound, and the place of the
// instruction. Out: violations, and whether the kind may be asked for its operands.
#pragma once

#include "plan/Checks.h"

#include <fmt/ranges.h>
#include <initializer_list>
#include <utility>

namespace mgc::plan {

class AttributeChecks {
public:
  AttributeChecks(Checks &checks, const Place &place) : checks_(checks), place_(place) {}
  const Plan &plan() const { return checks_.plan; }
  bool isSound() const { return sound_; } // the instruction's operands() may be asked

  template <typename... Args> bool expect(bool holds, fmt::format_string<Args...> format, Args &&...args) {
    return checks_.violations.expect(holds, place_, format, std::forward<Args>(args)...);
  }
  // A condition of operands(): without it the instruction is not sound.
  bool need(bool holds) {
    sound_ &= holds;
    return holds;
  }

  using Named = std::pair<std::string_view, int64_t>;
  bool arePositive(std::initializer_list<Named> sizes);
  bool isNotNegative(std::string_view name, double value); // and finite
  bool isFloatType(std::string_view name, DType type);
  // Elements between rows of `row` elements.
  bool isStride(std::string_view name, int64_t stride, Checked row);
  bool areAxes(const Axes &axes);
  bool areStages(const std::vector<int64_t> &stages);
  bool isScalar(const Scalar &scalar);
  template <typename Enum> bool isNamed(std::string_view name, Enum value) {
    const auto number = static_cast<int64_t>(value);
    return expect(inRange(number, enumNames<Enum>.size()), "{} {} is none; expected one of {}", name, number,
                  fmt::join(enumNames<Enum>, " "));
  }

private:
  Checks &checks_;
  const Place &place_;
  bool sound_ = true;
};

} // namespace mgc::plan
