// See Cuts.h.
#include "planner/search/Cuts.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace mgc::planner {

namespace {

// How good a cut is, the less the better: the slowest stage counts first, then how even stages and chunks are.
struct Evenness {
  double slowest = 0, squares = 0;
  bool operator<(const Evenness &other) const {
    constexpr double kRounding = 1e-9; // relative, of sums of equal numbers in another order
    if (std::abs(slowest - other.slowest) > kRounding * slowest)
      return slowest < other.slowest;
    return squares < other.squares * (1 - kRounding);
  }
};

class SecondsCutter {
public:
  SecondsCutter(const ShapeFacts &facts, const schedule::Shape &pipeline) : pipeline_(pipeline) {
    std::vector<double> seconds;
    for (const size_t block : facts.chain)
      seconds.push_back(facts.blocks[block].all);
    costs_ = costsOf(facts.cost, seconds);
    sums_.push_back(0);
    for (const double layer : costs_.layers)
      sums_.push_back(sums_.back() + layer);
  }

  Cut run() {
    Cut cut = schedule::balance(costs_, pipeline_.chunks());
    if (pipeline_.virtualStages == 1)
      return cut;
    for (Evenness best = evennessOf(cut);;) {
      std::optional<Cut> better;
      for (Cut &other : movesFrom(cut, slowestStage(cut)))
        if (const Evenness found = evennessOf(other); found < best)
          best = found, better = std::move(other);
      if (!better)
        return cut;
      cut = std::move(*better);
    }
  }

  std::vector<Cut> beside(const Cut &cut, std::optional<int64_t> stage) const {
    std::vector<std::pair<Evenness, Cut>> moves;
    for (Cut &other : movesFrom(cut, stage))
      moves.emplace_back(evennessOf(other), std::move(other));
    std::ranges::stable_sort(moves, [](const auto &a, const auto &b) {
      return std::pair(a.first.slowest, a.first.squares) < std::pair(b.first.slowest, b.first.squares);
    });
    std::vector<Cut> cuts;
    for (auto &[evenness, other] : moves)
      cuts.push_back(std::move(other));
    return cuts;
  }

private:
  std::vector<Cut> movesFrom(const Cut &cut, std::optional<int64_t> stage) const {
    std::vector<Cut> cuts;
    for (int64_t from = 0; from < std::ssize(cut); ++from) {
      if (cut[size_t(from)] < 2 || (stage && pipeline_.stageOf(from) != *stage))
        continue;
      for (int64_t to = 0; to < std::ssize(cut); ++to)
        if (to != from && !(stage && pipeline_.stageOf(to) == *stage)) {
          Cut &other = cuts.emplace_back(cut);
          --other[size_t(from)], ++other[size_t(to)];
        }
    }
    return cuts;
  }
  std::vector<double> chunksOf(const Cut &cut) const {
    std::vector<double> seconds;
    int64_t begin = 0;
    for (const int64_t layers : cut) {
      seconds.push_back(sums_[size_t(begin + layers)] - sums_[size_t(begin)]);
      begin += layers;
    }
    seconds.front() += costs_.embed, seconds.back() += costs_.head;
    return seconds;
  }
  std::vector<double> stagesOf(const std::vector<double> &chunks) const {
    std::vector<double> seconds(size_t(pipeline_.stages));
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
      seconds[size_t(pipeline_.stageOf(int64_t(chunk)))] += chunks[chunk];
    return seconds;
  }
  Evenness evennessOf(const Cut &cut) const {
    const std::vector<double> chunks = chunksOf(cut), stages = stagesOf(chunks);
    const auto square = [](double sum, double one) { return sum + one * one; };
    return {std::ranges::max(stages),
            std::accumulate(stages.begin(), stages.end(), std::accumulate(chunks.begin(), chunks.end(), 0.0, square),
                            square)};
  }
  int64_t slowestStage(const Cut &cut) const {
    const std::vector<double> stages = stagesOf(chunksOf(cut));
    return std::ranges::max_element(stages) - stages.begin();
  }

  const schedule::Shape pipeline_;
  schedule::LayerCosts costs_;
  std::vector<double> sums_; // seconds of the layers before each
};

} // namespace

Cut cutBySeconds(const ShapeFacts &facts, const schedule::Shape &pipeline) {
  return SecondsCutter(facts, pipeline).run();
}

std::vector<Cut> cutsBeside(const ShapeFacts &facts, const schedule::Shape &pipeline, const Cut &cut,
                            std::optional<int64_t> stage) {
  return SecondsCutter(facts, pipeline).beside(cut, stage);
}

Cut layersOf(const ShapeFacts &facts, std::span<const int64_t> instances) {
  Cut cut;
  auto layer = facts.cost.instances.begin();
  int64_t left = facts.cost.begin; // instances before the next layer
  for (const int64_t count : instances) {
    cut.push_back(0);
    for (left -= count; left < 0 && layer != facts.cost.instances.end(); ++layer)
      left += *layer, ++cut.back();
  }
  return cut;
}

} // namespace mgc::planner
