// Finds the calls of backward that bind a parameter. In: a plan that passed provePlan; it outlives the object. Out: whether
// gradients pass it.
#pragma once

#include "plan/Plan.h"

#include <vector>

namespace mgc::cost {

// Where in a rank's allocation a call finds one of its segments, in all of its runs. Values that were gathered count as if they lay whole
// behind the allocation, one bucket after another.
struct BoundRange {
  int64_t offset = 0, stride = 0, count = 1; // bytes; runs
  bool contains(int64_t address) const;
};

class ParameterBindings {
public:
  explicit ParameterBindings(const plan::Plan &plan);
  const plan::Plan &plan() const { return plan_; }

  // The share of its instances whose values a backward reads: a gradient passes them.
  double sharePassedByGradients(const plan::Parameter &parameter) const;

private:
  void addBackward();

  const plan::Plan &plan_;
  std::vector<std::vector<BoundRange>> backward_; // by stage
};

} // namespace mgc::cost
