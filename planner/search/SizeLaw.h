// How the sizes of programs follow from those of a shape: each is a product of powers of the shape's numbers, as rows of a rank are of
// mbs / cp and columns of a weight of 1 / tp. In: outlines of a shape that was compiled, and of one more for each number that varies
// independently of the others. Out: facts of other shapes. A size that is a sum of powers, each with a factor above 0, is convex in the
// logarithms of the numbers: for larger shapes it is above what follows from two small ones, so that facts are bounds.
#pragma once

#include "planner/search/ShapeOutline.h"

namespace mgc::planner {

// Bounds leave so much of a block's seconds out: sizes that are rounded up are no powers, and another policy may be a little faster.
inline constexpr double kLawError = 0.01;
// Bounds leave so much of what policies keep out: Shapes::addPolicies.
inline constexpr double kKeptError = 0.03;

// The numbers of shapes as products of powers of each other's.
class SizeSpan {
public:
  explicit SizeSpan(const ShapeSizes &base) : base_(base) {}
  // False: its numbers follow from those of the base and of the shapes that were added.
  bool add(const ShapeSizes &shape);
  size_t rank() const { return rows_.size(); }
  // Exponents of the numbers in a size of which `ratios` are those of the shapes that were added over that of the base.
  std::array<double, ShapeSizes::kNumbers> exponentsOf(const std::vector<double> &ratios) const;

private:
  using Row = std::array<double, ShapeSizes::kNumbers>; // logarithms of ratios
  const ShapeSizes base_;
  std::vector<Row> rows_, reduced_;
  std::vector<size_t> pivots_; // columns
};

class SizeLaw {
public:
  // The others are like the base (ShapeOutline::isLike), and independent of each other.
  SizeLaw(ShapeOutline base, std::vector<ShapeOutline> others);
  // ShapeOutline's, of other shapes.
  ShapeFacts facts(const PricedMachine &machine, const ShapeSizes &sizes, const plan::Mesh &mesh, bool hasOthers);
  std::vector<std::vector<PolicyFacts>> policies(const PricedMachine &machine, const ShapeSizes &sizes,
                                                 const plan::Mesh &mesh);

private:
  void scaleTo(const ShapeSizes &sizes);
  struct Power {
    ShapeOutline::Number number;
    double base = 0; // its value in the base
    std::array<double, ShapeSizes::kNumbers> exponents = {};
  };
  ShapeOutline outline_;      // with the numbers of the shape that was asked for last
  std::vector<Power> powers_; // numbers that vary
};

// Whether facts by a law, less kLawError, are bounds of those that are `known`.
bool agree(const ShapeFacts &byLaw, const ShapeFacts &known);

} // namespace mgc::planner
