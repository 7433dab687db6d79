// Policies for a budget: what is chosen takes as long as the best of all choices, in random stages.
#include "compiler/assemble/budget/LeastOfStage.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mgc::budget;

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  Seconds seconds(int64_t least, int64_t most) {
    return {double(from(least, most)), double(from(least, most)), double(from(0, 1))};
  }
  int64_t from(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  StageLayers stage(int64_t chunks, bool split) {
    StageLayers stage{from(0, 50), from(0, 8), from(0, 3), {}, {}};
    for (int64_t c = 0; c < chunks; ++c) {
      ChunkLayers chunk;
      chunk.kept = from(0, 5);
      chunk.seconds = seconds(0, 4);
      for (int64_t kinds = from(1, 2); kinds > 0; --kinds) {
        Layers layers{from(1, 3), {}};
        for (int64_t options = from(1, 3); options > 0; --options)
          layers.options.push_back({from(1, 20), split ? from(0, 10) : 0, from(0, 12), from(0, 6), seconds(1, 5)});
        chunk.layers.push_back(layers);
      }
      stage.chunks.push_back(chunk);
    }
    for (int64_t ways = chunks > 1 ? from(1, 3) : 1; ways > 0; --ways)
      stage.ways.push_back(way(chunks, split, ways > 1, ways > 2));
    return stage;
  }

private:
  std::vector<Moment> way(int64_t chunks, bool split, bool sharesKept, bool sharesSplit) {
    std::vector<Moment> moments;
    for (int64_t count = from(1, 3); count > 0; --count) {
      Moment moment{from(0, 10), std::vector<int64_t>(chunks, 0), std::vector<int64_t>(chunks, 0)};
      for (int64_t c = 0; c < chunks; ++c) {
        moment.kept[c] = sharesKept ? 0 : from(0, 4);
        moment.split[c] = !split || sharesSplit ? 0 : from(0, 3);
      }
      moment.sharedKept = sharesKept ? from(1, 6) : 0;
      moment.sharedSplit = split && sharesSplit ? from(1, 4) : 0;
      moments.push_back(moment);
    }
    return moments;
  }
  std::mt19937_64 random_;
};

// Calls `visit` with the options of all layers of all chunks, one after the other.
template <typename Visit> void forEachAssignment(const StageLayers &stage, Visit visit) {
  std::vector<std::pair<size_t, const Layers *>> layers; // chunk
  for (size_t c = 0; c < stage.chunks.size(); ++c)
    for (const Layers &kind : stage.chunks[c].layers)
      layers.insert(layers.end(), size_t(kind.count), {c, &kind});
  std::vector<size_t> chosen(layers.size(), 0);
  for (bool more = true; more;) {
    visit(layers, chosen);
    more = false;
    for (size_t i = 0; i < chosen.size() && !more; ++i)
      more = ++chosen[i] < layers[i].second->options.size() || (chosen[i] = 0, false);
  }
}

struct Outcome {
  int64_t bytes;
  std::vector<Seconds> seconds;
};

std::vector<Outcome> outcomesOf(const StageLayers &stage) {
  std::vector<Outcome> all;
  forEachAssignment(stage, [&](const auto &layers, const auto &chosen) {
    const size_t count = stage.chunks.size();
    std::vector<int64_t> kept(count), split(count);
    Outcome outcome{0, std::vector<Seconds>(count)};
    int64_t frame = stage.frame, forwardFrame = stage.forwardFrame;
    for (size_t c = 0; c < count; ++c)
      kept[c] = stage.chunks[c].kept, split[c] = stage.chunks[c].split, outcome.seconds[c] = stage.chunks[c].seconds;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Option &option = layers[i].second->options[chosen[i]];
      kept[layers[i].first] += option.kept;
      split[layers[i].first] += option.split;
      for (size_t task = 0; task < 3; ++task)
        outcome.seconds[layers[i].first][task] += option.seconds[task];
      frame = std::max(frame, option.frame), forwardFrame = std::max(forwardFrame, option.forwardFrame);
    }
    outcome.bytes = std::numeric_limits<int64_t>::max();
    for (const std::vector<Moment> &way : stage.ways) {
      int64_t most = 0;
      for (const Moment &moment : way) {
        int64_t bytes =
            moment.bytes + moment.sharedKept * std::ranges::max(kept) + moment.sharedSplit * std::ranges::max(split);
        for (size_t c = 0; c < count; ++c)
          bytes += moment.kept[c] * kept[c] + moment.split[c] * split[c];
        most = std::max(most, bytes);
      }
      outcome.bytes = std::min(outcome.bytes, stage.bytes + frame + forwardFrame + most);
    }
    all.push_back(std::move(outcome));
  });
  return all;
}

bool isAtMost(const std::vector<Seconds> &a, const std::vector<Seconds> &b) {
  return std::ranges::equal(
      a, b, [](const Seconds &x, const Seconds &y) { return std::ranges::equal(x, y, std::less_equal<>()); });
}

TEST(Budget, ChoicesAreThoseThatNoOtherIsBelowOf) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const StageLayers stage = draw.stage(1 + int64_t(seed % 2), seed % 3 == 0);
    const std::vector<Outcome> all = outcomesOf(stage);
    const auto [least, most] = std::ranges::minmax(all, {}, &Outcome::bytes);
    EXPECT_EQ(smallest(stage).bytes, least.bytes) << seed;
    for (int64_t capacity : {least.bytes - 1, least.bytes, draw.from(least.bytes, most.bytes), most.bytes}) {
      bool isCut = false;
      const std::vector<StageChoice> choices = choicesOf(stage, capacity, isCut);
      EXPECT_FALSE(isCut) << seed;
      EXPECT_EQ(choices.empty(), capacity < least.bytes) << seed;
      for (const StageChoice &choice : choices)
        EXPECT_LE(choice.bytes, capacity) << seed;
      for (const Outcome &outcome : all) // something at least as fast is among the choices
        if (outcome.bytes <= capacity)
          EXPECT_TRUE(
              std::ranges::any_of(choices, [&](const StageChoice &c) { return isAtMost(c.seconds, outcome.seconds); }))
              << seed << ", capacity " << capacity;
      for (const StageChoice &choice : choices) // and each choice exists
        EXPECT_TRUE(std::ranges::any_of(
            all, [&](const Outcome &o) { return o.bytes <= capacity && o.seconds == choice.seconds; }))
            << seed << ", capacity " << capacity;
    }
  }
}

// Longest path of a small pipeline: microbatches pass all chunks of all stages, and back; a stage does one task after the other.
double pathOf(const std::vector<std::vector<Seconds>> &seconds) {
  constexpr int kMicrobatches = 3;
  const auto stages = int(seconds.size()), chunks = int(seconds.front().size());
  std::vector<double> free(seconds.size(), 0);
  double end = 0;
  for (int m = 0; m < kMicrobatches; ++m) {
    double at = 0;
    for (int n = 0; n < chunks * stages; ++n)
      at = free[n % stages] = std::max(at, free[n % stages]) + seconds[n % stages][n / stages][0];
    for (int n = chunks * stages; n-- > 0;) {
      at = free[n % stages] = std::max(at, free[n % stages]) + seconds[n % stages][n / stages][1];
      free[n % stages] += seconds[n % stages][n / stages][2];
    }
    end = std::max(end, std::ranges::max(free));
  }
  return end;
}

TEST(Budget, SelectsTheLeastStep) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw draw(1000 + seed);
    const int64_t chunks = 1 + int64_t(seed % 2);
    std::vector<std::vector<StageChoice>> choices;
    std::vector<std::vector<Outcome>> fitting;
    for (int64_t s = 0; s < 2; ++s) {
      const StageLayers stage = draw.stage(chunks, seed % 3 == 0);
      std::vector<Outcome> all = outcomesOf(stage);
      const auto [least, most] = std::ranges::minmax(all, {}, &Outcome::bytes);
      const int64_t capacity = draw.from(least.bytes, most.bytes);
      std::erase_if(all, [&](const Outcome &outcome) { return outcome.bytes > capacity; });
      std::ranges::sort(all, {}, &Outcome::seconds);
      const auto equal = std::ranges::unique(all, {}, &Outcome::seconds);
      all.erase(equal.begin(), equal.end());
      bool isCut = false;
      choices.push_back(choicesOf(stage, capacity, isCut));
      fitting.push_back(std::move(all));
    }
    double best = std::numeric_limits<double>::infinity();
    for (const Outcome &first : fitting[0])
      for (const Outcome &second : fitting[1])
        best = std::min(best, pathOf({first.seconds, second.seconds}));
    const Selection found = select(choices, pathOf, 1 << 20);
    EXPECT_EQ(found.seconds, best) << seed;
    EXPECT_EQ(found.least, found.seconds) << seed;
    EXPECT_EQ(found.seconds, pathOf({choices[0][found.choices[0]].seconds, choices[1][found.choices[1]].seconds}))
        << seed;
  }
}

// Neither of two choices is the least in both chunks, so that the bound promises more than there is.
TEST(Budget, ASearchThatIsCutSaysSo) {
  const StageChoice first{{}, {{1, 1, 0}, {4, 4, 0}}, 0}, second{{}, {{4, 4, 0}, {1, 1, 0}}, 0};
  const std::vector<std::vector<StageChoice>> choices(2, {first, second});
  const Selection whole = select(choices, pathOf, 100), cut = select(choices, pathOf, 1);
  EXPECT_EQ(whole.least, whole.seconds);
  EXPECT_LT(cut.least, cut.seconds);
  EXPECT_LE(cut.least, whole.seconds);
  EXPECT_EQ(cut.seconds, pathOf({choices[0][cut.choices[0]].seconds, choices[1][cut.choices[1]].seconds}));
}

} // namespace

// Where options trade bytes for seconds in several ways, sums of many layers make more points than can be looked at: those that are
// left have the fastest choice and the smallest.
TEST(Budget, ManyPointsAreThinned) {
  std::mt19937_64 random(7);
  const auto from = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Layers layers{24, {{1'000'000, 1'000'000, 0, 0, {1, 1, 1}}, {1'000, 1'000, 0, 0, {4, 4, 4}}}};
  for (int i = 0; i < 10; ++i) {
    const int64_t kept = from(2'000, 900'000), split = from(2'000, 900'000); // the less of both, the longer
    const double seconds = 2 - double(kept + split) / 2e6 + double(from(0, 1'000)) / 1e6;
    layers.options.push_back({kept, split, 0, 0, {seconds, 1 + seconds, 1 + seconds}});
  }
  StageLayers stage;
  stage.chunks.push_back({{layers}});
  stage.ways.push_back({{0, {2}, {1}}});
  bool isCut = false;
  const std::vector<StageChoice> all = choicesOf(stage, int64_t(1) << 60, isCut);
  EXPECT_TRUE(isCut);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().seconds.front(), (Seconds{24, 24, 24}));
  stage.chunks.front().layers.push_back(
      {1, {{1'000'000'000, 1'000'000'000, 0, 0, {}}}}); // until it is added there is room for all
  const std::vector<StageChoice> smallest = choicesOf(stage, leastBytes(stage), isCut);
  ASSERT_FALSE(smallest.empty());
  EXPECT_EQ(smallest.front().bytes, leastBytes(stage));
}
