// See Balance.h. Dynamic programs over (part, layers so far): the first finds the least possible largest cost; the second, held to
// that, the least sum of squares, before and behind each point; the third takes the parts that are on some way of that sum, all of
// whose ways have it, and finds the least largest memory. One program that ranked the first two at once would be wrong: a prefix
// with a larger maximum can be the better one when a later part is larger still.
#include "compiler/schedule/Balance.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace mgc::schedule {
namespace {

constexpr double kRounding = 1e-9; // relative, of sums of equal numbers in another order

std::vector<double> sumsOf(const std::vector<double> &values, int64_t layers) {
  std::vector<double> sums(size_t(layers) + 1, 0);
  for (size_t i = 0; i < values.size(); ++i)
    sums[i + 1] = sums[i] + values[i];
  return sums;
}

class Balancer {
public:
  Balancer(const LayerCosts &costs, int64_t parts)
      : costs(costs), parts(parts), layers(int64_t(costs.layers.size())), least(layers >= parts),
        sums(sumsOf(costs.layers, layers)), states(sumsOf(costs.states, layers)), kept(sumsOf(costs.kept, layers)) {}

  std::vector<int64_t> balance() {
    const auto larger = [](double before, double own) { return std::max(before, own); };
    const auto sum = [](double before, double own) { return before + own; };
    solve(INFINITY, [&](int64_t part, int64_t begin, int64_t end) { return cost(part, begin, end); }, larger);
    const double bound = values[parts][layers] * (1 + kRounding);
    const auto square = [&](int64_t part, int64_t begin, int64_t end) {
      const double own = cost(part, begin, end);
      return own * own;
    };
    const std::vector<std::vector<double>> behind = sumsBehind(bound, square);
    solve(bound, square, sum);
    const std::vector<std::vector<double>> before = values;
    const double most = before[parts][layers] * (1 + kRounding);
    solve(
        bound,
        [&](int64_t part, int64_t begin, int64_t end) {
          const double all = before[part][begin] + square(part, begin, end) + behind[part + 1][end];
          return all <= most ? memory(part, begin, end) : INFINITY;
        },
        larger);
    std::vector<int64_t> split(parts);
    for (int64_t part = parts, end = layers; part-- > 0; end = choice[part][end])
      split[part] = end - choice[part][end];
    return split;
  }

  double memory(int64_t part, int64_t begin, int64_t end) const {
    return states[end] - states[begin] + double(parts - part) * (kept[end] - kept[begin]);
  }

private:
  double cost(int64_t part, int64_t begin, int64_t end) const {
    return sums[end] - sums[begin] + (part == 0 ? costs.embed : 0) + (part + 1 == parts ? costs.head : 0);
  }

  // The best value of all ways to each point: combine(value of the parts before, of a part), no part of which costs more than `most`.
  // The way whose last part is longest is taken of equal ones. Records choices.
  template <typename Value, typename Combine> void solve(double most, Value &&value, Combine &&combine) {
    values.assign(size_t(parts) + 1, std::vector<double>(size_t(layers) + 1, INFINITY));
    values[0][0] = 0;
    choice.assign(size_t(parts), std::vector<int64_t>(size_t(layers) + 1, 0));
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t end = least * (part + 1); end <= lastEnd(part); ++end) {
        double &best = values[part + 1][end];
        // A longer part costs more; where costs are all that counts, more than the best is too much.
        const auto isTooMuch = [&](double own) { return own > most || (most == INFINITY && own > best); };
        for (int64_t begin = end - least; begin >= least * part && !isTooMuch(cost(part, begin, end)); --begin)
          if (values[part][begin] < INFINITY)
            if (const double found = combine(values[part][begin], value(part, begin, end));
                found < INFINITY && found <= best)
              best = found, choice[part][end] = begin;
      }
  }
  // Each part behind it has a layer, if there are as many.
  int64_t lastEnd(int64_t part) const { return layers - least * (parts - part - 1); }

  // Least sums of the parts from each point on, no part of which costs more than `most`.
  template <typename Value> std::vector<std::vector<double>> sumsBehind(double most, Value &&value) const {
    std::vector<std::vector<double>> sums(size_t(parts) + 1, std::vector<double>(size_t(layers) + 1, INFINITY));
    sums[parts][layers] = 0;
    for (int64_t part = parts; part-- > 0;)
      for (int64_t begin = least * part; begin <= layers; ++begin)
        for (int64_t end = begin + least; end <= lastEnd(part) && cost(part, begin, end) <= most; ++end)
          if (sums[part + 1][end] < INFINITY)
            sums[part][begin] = std::min(sums[part][begin], value(part, begin, end) + sums[part + 1][end]);
    return sums;
  }

  const LayerCosts &costs;
  int64_t parts, layers, least; // least: layers per part
  std::vector<double> sums, states, kept;
  std::vector<std::vector<double>> values;  // [parts so far][layers so far]
  std::vector<std::vector<int64_t>> choice; // [part][end]: where the part begins
};

} // namespace

double largestMemory(const LayerCosts &costs, const std::vector<int64_t> &split) {
  const Balancer balancer(costs, int64_t(split.size()));
  double largest = 0;
  for (int64_t part = 0, begin = 0; part < int64_t(split.size()); begin += split[part++])
    largest = std::max(largest, balancer.memory(part, begin, begin + split[part]));
  return largest;
}

std::vector<int64_t> balance(const LayerCosts &costs, int64_t parts) {
  assert(parts >= 1);
  return Balancer(costs, parts).balance();
}

} // namespace mgc::schedule
