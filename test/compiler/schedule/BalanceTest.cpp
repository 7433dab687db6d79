// The split of layers against exhaustive search.
#include "compiler/schedule/Balance.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace mgc::schedule {
namespace {

using Split = std::vector<int64_t>;

double largestPart(const LayerCosts &costs, const Split &split) {
  double largest = 0;
  auto layer = costs.layers.begin();
  for (size_t part = 0; part < split.size(); ++part) {
    const double own = std::accumulate(layer, layer + split[part], 0.0);
    layer += split[part];
    largest = std::max(largest, own + (part == 0 ? costs.embed : 0) + (part + 1 == split.size() ? costs.head : 0));
  }
  return largest;
}

// Every split of the layers into parts with at least `least` layers each.
void forEachSplit(int64_t layers, int64_t parts, int64_t least, Split &split, const auto &visit) {
  if (parts == 1) {
    if (layers < least)
      return;
    split.push_back(layers);
    visit(split);
    split.pop_back();
    return;
  }
  for (int64_t first = least; first <= layers; ++first) {
    split.push_back(first);
    forEachSplit(layers - first, parts - 1, least, split, visit);
    split.pop_back();
  }
}

TEST(Balance, ExactOnRandomCosts) {
  std::mt19937 random(7);
  for (int64_t layers = 0; layers <= 8; ++layers)
    for (int64_t parts = 1; parts <= 5; ++parts)
      for (int repeat = 0; repeat < 10; ++repeat) {
        LayerCosts costs{double(random() % 6), {}, double(random() % 12)};
        for (int64_t i = 0; i < layers; ++i)
          costs.layers.push_back(double(1 + random() % 5));
        Split found = balance(costs, parts);
        ASSERT_EQ(int64_t(found.size()), parts);
        EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t(0)), layers);
        EXPECT_GE(*std::min_element(found.begin(), found.end()), layers >= parts);
        double best = INFINITY;
        Split split;
        forEachSplit(layers, parts, layers >= parts, split,
                     [&](const Split &each) { best = std::min(best, largestPart(costs, each)); });
        EXPECT_EQ(largestPart(costs, found), best) << layers << " layers, " << parts << " parts";
      }
}

double sumOfSquares(const LayerCosts &costs, const Split &split) {
  double sum = 0;
  auto layer = costs.layers.begin();
  for (size_t part = 0; part < split.size(); ++part) {
    const double own = std::accumulate(layer, layer + split[part], 0.0) + (part == 0 ? costs.embed : 0) +
                       (part + 1 == split.size() ? costs.head : 0);
    layer += split[part];
    sum += own * own;
  }
  return sum;
}

// No split that is as good and as even, but for rounding, takes less memory.
TEST(Balance, TiesTakeLeastMemory) {
  std::mt19937 random(11);
  int64_t ties = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const int64_t layers = 1 + int64_t(random() % 9), parts = 1 + int64_t(random() % 5);
    LayerCosts costs{0.1 * double(random() % 3), {}, 0.1 * double(random() % 3)};
    for (int64_t i = 0; i < layers; ++i) {
      costs.layers.push_back(0.1 * double(1 + random() % 2)); // sums in another order have other last bits
      costs.states.push_back(double(random() % 50));
      costs.kept.push_back(double(random() % 20));
    }
    const Split found = balance(costs, parts);
    Split split;
    forEachSplit(layers, parts, layers >= parts, split, [&](const Split &each) {
      const bool isTie = largestPart(costs, each) <= largestPart(costs, found) * (1 + 1e-12) &&
                         sumOfSquares(costs, each) <= sumOfSquares(costs, found) * (1 + 1e-12);
      ties += isTie && each != found;
      if (isTie)
        EXPECT_LE(largestMemory(costs, found), largestMemory(costs, each))
            << layers << " layers, " << parts << " parts";
    });
  }
  EXPECT_GT(ties, 100);
}

TEST(Balance, ShorterPartsComeFirst) {
  const std::vector<double> ones(10, 1.0);
  EXPECT_EQ(balance({0, ones, 0, ones, ones}, 4), (Split{2, 2, 3, 3}));
}

TEST(Balance, EqualLayersWithoutEndsSplitEvenly) {
  EXPECT_EQ(balance({0, std::vector<double>(12, 1.0), 0}, 4), (Split{3, 3, 3, 3}));
  Split uneven = balance({0, std::vector<double>(10, 1.0), 0}, 4);
  std::sort(uneven.begin(), uneven.end());
  EXPECT_EQ(uneven, (Split{2, 2, 3, 3}));
}

TEST(Balance, AHeavyHeadTakesLayersFromTheLastPart) {
  EXPECT_EQ(balance({0, std::vector<double>(14, 1.0), 2}, 4), (Split{4, 4, 4, 2}));
}

TEST(Balance, FewerLayersThanParts) {
  Split split = balance({1, {5, 5}, 1}, 4);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), int64_t(0)), 2);
  EXPECT_EQ(largestPart({1, {5, 5}, 1}, split), 5);
}

TEST(Balance, LargeModelsAreFast) {
  Split split = balance({1, std::vector<double>(512, 1.0), 3}, 64);
  EXPECT_EQ(largestPart({1, std::vector<double>(512, 1.0), 3}, split), 9);
}

} // namespace
} // namespace mgc::schedule
