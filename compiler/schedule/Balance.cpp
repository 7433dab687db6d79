// See Balance.h. Two dynamic programs over (part, layers so far): the first finds the least possible largest
// cost, the second, held to that, the least sum of squares. One program that ranked both at once would be
// wrong: a prefix with a larger maximum can be the better one when a later part is larger still.
#include "compiler/schedule/Balance.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace mgc::schedule {
namespace {

class Balancer {
public:
  Balancer(const LayerCosts &costs, int64_t parts)
      : costs(costs), parts(parts), layers(int64_t(costs.layers.size())), least(layers >= parts), sums(layers + 1, 0) {
    for (int64_t i = 0; i < layers; ++i)
      sums[i + 1] = sums[i] + costs.layers[i];
  }

  std::vector<int64_t> balance() {
    double bound = solve([](double before, double part) { return std::max(before, part); });
    solve([&](double before, double part) { return part > bound ? INFINITY : before + part * part; });
    std::vector<int64_t> split(parts);
    for (int64_t part = parts, end = layers; part-- > 0;) {
      int64_t begin = choice[part][end];
      split[part] = end - begin;
      end = begin;
    }
    return split;
  }

private:
  double cost(int64_t part, int64_t begin, int64_t end) const {
    return sums[end] - sums[begin] + (part == 0 ? costs.embed : 0) + (part + 1 == parts ? costs.head : 0);
  }

  // The best value over all splits of all layers; combine(value of the parts before, cost of a part). Records choices.
  template <typename Combine> double solve(Combine &&combine) {
    std::vector<double> before(layers + 1, INFINITY);
    before[0] = 0;
    choice.assign(parts, std::vector<int64_t>(layers + 1, 0));
    for (int64_t part = 0; part < parts; ++part) {
      std::vector<double> best(layers + 1, INFINITY);
      for (int64_t end = 0; end <= layers; ++end)
        for (int64_t begin = 0; begin <= end - least; ++begin) {
          if (before[begin] == INFINITY)
            continue;
          double value = combine(before[begin], cost(part, begin, end));
          if (value < best[end]) {
            best[end] = value;
            choice[part][end] = begin;
          }
        }
      before = std::move(best);
    }
    return before[layers];
  }

  const LayerCosts &costs;
  int64_t parts, layers, least; // least: layers per part
  std::vector<double> sums;
  std::vector<std::vector<int64_t>> choice; // [part][end]: where the part begins
};

} // namespace

std::vector<int64_t> balance(const LayerCosts &costs, int64_t parts) {
  assert(parts >= 1);
  return Balancer(costs, parts).balance();
}

} // namespace mgc::schedule
