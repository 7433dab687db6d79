// See SizeLaw.h.
#include "planner/search/SizeLaw.h"

#include <algorithm>
#include <cmath>

namespace mgc::planner {

namespace {

double valueOf(const ShapeOutline::Number &number) {
  return std::visit([](const auto *value) { return double(*value); }, number);
}

void set(const ShapeOutline::Number &number, double value) {
  if (auto *const *whole = std::get_if<int64_t *>(&number))
    **whole = std::llround(value);
  else
    *std::get<double *>(number) = value;
}

constexpr double kRounding = 1e-9; // logarithms are equal to within it

// Exact where the exponent is a whole number and the result is one.
double scaled(double value, double ratio, double exponent) {
  double whole = 0;
  if (std::modf(exponent, &whole) != 0)
    return value * std::pow(ratio, exponent);
  for (; whole > 0; --whole)
    value *= ratio;
  for (; whole < 0; ++whole)
    value /= ratio;
  return value;
}

} // namespace

bool SizeSpan::add(const ShapeSizes &shape) {
  const auto from = base_.numbers(), to = shape.numbers();
  Row row;
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = std::log(double(to[i]) / double(from[i]));
  Row left = row;
  for (size_t r = 0; r < reduced_.size(); ++r) {
    const double times = left[pivots_[r]] / reduced_[r][pivots_[r]];
    for (size_t i = 0; i < left.size(); ++i)
      left[i] -= times * reduced_[r][i];
  }
  const auto largest = std::ranges::max_element(left, {}, [](double value) { return std::abs(value); });
  if (std::abs(*largest) < kRounding)
    return false;
  rows_.push_back(row), reduced_.push_back(left);
  pivots_.push_back(size_t(largest - left.begin()));
  return true;
}

// Numbers that follow from others have the exponent 0.
std::array<double, ShapeSizes::kNumbers> SizeSpan::exponentsOf(const std::vector<double> &ratios) const {
  std::vector<double> values; // logarithms, one for each of the reduced rows
  for (size_t r = 0; r < rows_.size(); ++r) {
    double value = std::log(ratios[r]);
    Row left = rows_[r];
    for (size_t s = 0; s < r; ++s) {
      const double times = left[pivots_[s]] / reduced_[s][pivots_[s]];
      value -= times * values[s];
      for (size_t i = 0; i < left.size(); ++i)
        left[i] -= times * reduced_[s][i];
    }
    values.push_back(value);
  }
  std::array<double, ShapeSizes::kNumbers> exponents = {};
  for (size_t r = rows_.size(); r-- > 0;) {
    double value = values[r];
    for (size_t s = r + 1; s < rows_.size(); ++s)
      value -= reduced_[r][pivots_[s]] * exponents[pivots_[s]];
    const double exponent = value / reduced_[r][pivots_[r]];
    exponents[pivots_[r]] = std::abs(exponent - std::round(exponent)) < kRounding ? std::round(exponent) : exponent;
  }
  return exponents;
}

SizeLaw::SizeLaw(ShapeOutline base, std::vector<ShapeOutline> others) : outline_(std::move(base)) {
  SizeSpan span(outline_.sizes());
  std::vector<std::vector<double>> values; // each outline's numbers
  for (ShapeOutline &other : others) {
    span.add(other.sizes());
    std::vector<double> &own = values.emplace_back();
    for (const ShapeOutline::Number &number : other.numbers())
      own.push_back(valueOf(number));
  }
  const std::vector<ShapeOutline::Number> numbers = outline_.numbers();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double own = valueOf(numbers[i]);
    std::vector<double> ratios;
    for (const std::vector<double> &other : values)
      ratios.push_back(own > 0 && other[i] > 0 ? other[i] / own : 1);
    if (std::ranges::any_of(ratios, [](double ratio) { return ratio != 1; }))
      powers_.push_back({numbers[i], own, span.exponentsOf(ratios)});
  }
}

void SizeLaw::scaleTo(const ShapeSizes &sizes) {
  const auto from = outline_.sizes().numbers(), to = sizes.numbers();
  for (const Power &power : powers_) {
    double value = power.base;
    for (size_t i = 0; i < from.size(); ++i)
      if (power.exponents[i] != 0)
        value = scaled(value, double(to[i]) / double(from[i]), power.exponents[i]);
    set(power.number, value);
  }
}

ShapeFacts SizeLaw::facts(const PricedMachine &machine, const ShapeSizes &sizes, const plan::Mesh &mesh,
                          bool hasOthers) {
  scaleTo(sizes);
  return outline_.facts(machine, sizes, mesh, hasOthers);
}

std::vector<std::vector<PolicyFacts>> SizeLaw::policies(const PricedMachine &machine, const ShapeSizes &sizes,
                                                        const plan::Mesh &mesh) {
  scaleTo(sizes);
  return outline_.policies(machine, mesh);
}

bool agree(const ShapeFacts &byLaw, const ShapeFacts &known) {
  constexpr double kRounding = 1e-9;
  const auto isBound = [](double bound, double value) { return bound <= value * (1 + kRounding); };
  const auto elementsBound = [&](const auto &bounds, const auto &values) {
    return std::ranges::all_of(bounds, [&](const auto &bound) {
      const auto value = values.find(bound.first);
      return value != values.end() && isBound(bound.second, value->second);
    });
  };
  const auto policiesBound = [&](const std::vector<PolicyFacts> &bounds, const std::vector<PolicyFacts> &policies) {
    const auto hasBound = [&](const PolicyFacts &policy) {
      return std::ranges::any_of(bounds, [&](const PolicyFacts &bound) {
        return isBound(bound.seconds, policy.seconds) && isBound(bound.unexposed, policy.unexposed) &&
               bound.kept <= policy.kept;
      });
    };
    return bounds.empty() || (!policies.empty() && std::ranges::all_of(policies, hasBound));
  };
  const auto isCutAlike = [&](const auto &cut) {
    return cut.second == balancedChunks(known.cost, std::ssize(known.chain), cut.first);
  };
  return byLaw.chain == known.chain &&
         (byLaw.policies.empty() || std::ranges::equal(byLaw.policies, known.policies, policiesBound)) &&
         std::ranges::all_of(byLaw.cuts, isCutAlike) &&
         std::ranges::equal(byLaw.blocks, known.blocks, [&](const BlockLeast &a, const BlockLeast &b) {
           return isBound(a.forward, b.forward) && isBound(a.passes, b.passes) && isBound(a.all, b.all) &&
                  isBound(a.unhiding, b.unhiding) && isBound(a.unexposed, b.unexposed) &&
                  isBound(a.onNetwork, b.onNetwork) && a.kept <= b.kept && a.frame <= b.frame &&
                  elementsBound(a.elements, b.elements) && elementsBound(a.reads, b.reads);
         });
}

} // namespace mgc::planner
