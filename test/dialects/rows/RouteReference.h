// mg.route in double, as dialects/mg/ops/Route.td states it: plain loops over one token.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace mgc::test {

using Row = std::vector<double>;

struct Router {
  std::string name;
  int experts = 1, chosen = 1;
  std::string score = "softmax", post = "gather";
  bool biased = false;
  int groups = 1, keptGroups = 1, groupTop = 1;
  std::optional<double> epsilon{}, least{};
  double scale = 1;

  Row scores(const Row &logits) const {
    const double max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double x : logits)
      sum += std::exp(x - max);
    Row result;
    for (double x : logits)
      result.push_back(score == "softmax"   ? std::exp(x - max) / sum
                       : score == "sigmoid" ? 1 / (1 + std::exp(-x))
                       : score == "none"    ? x
                                            : std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))));
    return result;
  }

  // Numbers by descending value, the lowest of equal ones first.
  static std::vector<int> order(const Row &values) {
    std::vector<int> numbers(values.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    std::sort(numbers.begin(), numbers.end(),
              [&](int a, int b) { return values[a] > values[b] || (values[a] == values[b] && a < b); });
    return numbers;
  }

  double groupScore(const Row &choice, int group) const {
    const int size = experts / groups;
    Row members(choice.begin() + group * size, choice.begin() + (group + 1) * size);
    std::sort(members.begin(), members.end(), std::greater<>());
    return std::accumulate(members.begin(), members.begin() + groupTop, 0.0);
  }

  std::vector<int> choose(const Row &logits, const Row &bias) const {
    Row choice = scores(logits), ofGroups;
    for (int e = 0; e < experts && biased; ++e)
      choice[e] += bias[e];
    for (int group = 0; group < groups; ++group)
      ofGroups.push_back(groupScore(choice, group));
    const std::vector<int> best = order(ofGroups);
    std::vector<int> result;
    for (int e : order(choice))
      if (std::find(best.begin(), best.begin() + keptGroups, e / (experts / groups)) != best.begin() + keptGroups)
        result.push_back(e);
    result.resize(chosen);
    return result;
  }

  Row weights(const Row &logits, const std::vector<int> &of) const {
    const Row all = scores(logits);
    Row gates;
    double sum = 0, exps = 0;
    for (int e : of)
      exps += std::exp(all[e]);
    for (int e : of) {
      gates.push_back(post == "gather"    ? all[e]
                      : post == "softmax" ? std::exp(all[e]) / exps
                                          : 1 / (1 + std::exp(-all[e])));
      sum += gates.back();
    }
    const double divisor = epsilon ? sum + *epsilon : least ? std::max(sum, *least) : 1;
    for (double &gate : gates)
      gate *= scale / divisor;
    return gates;
  }

  // `all`: those of mg.route besides those of mg.route_grad.
  std::string attributes(bool all) const {
    auto number = [](double value) {
      char text[40];
      std::snprintf(text, sizeof text, "%.17e : f64", value);
      return std::string(text);
    };
    std::string text = "{score = \"" + score + "\", post = \"" + post + "\", scale = " + number(scale);
    if (epsilon)
      text += ", epsilon = " + number(*epsilon);
    if (least)
      text += ", least = " + number(*least);
    if (all)
      text += ", groups = " + std::to_string(groups) + " : i64, keptGroups = " + std::to_string(keptGroups) +
              " : i64, groupTop = " + std::to_string(groupTop) + " : i64";
    return text + "}";
  }
};

// Routers of model families, and sizes at the ends.
inline const std::vector<Router> kRouters = {
    {.name = "mixtral", .experts = 8, .chosen = 2, .epsilon = 0},
    {.name = "qwen2_moe", .experts = 60, .chosen = 4},
    {.name = "qwen3_moe", .experts = 128, .chosen = 8, .epsilon = 0},
    {.name = "olmoe", .experts = 64, .chosen = 8},
    {.name = "gpt_oss", .experts = 32, .chosen = 4, .score = "none", .post = "softmax"},
    {.name = "deepseek_v2", .experts = 160, .chosen = 6, .groups = 8, .keptGroups = 3, .scale = 16},
    {.name = "deepseek_v2_greedy", .experts = 64, .chosen = 6},
    {.name = "deepseek_v3",
     .experts = 256,
     .chosen = 8,
     .score = "sigmoid",
     .biased = true,
     .groups = 8,
     .keptGroups = 4,
     .groupTop = 2,
     .epsilon = 1e-20,
     .scale = 2.5},
    {.name = "kimi_k2",
     .experts = 384,
     .chosen = 8,
     .score = "sigmoid",
     .biased = true,
     .epsilon = 1e-20,
     .scale = 2.827},
    {.name = "glm4_moe", .experts = 128, .chosen = 8, .score = "sigmoid", .biased = true},
    {.name = "minimax_m2", .experts = 256, .chosen = 8, .score = "sigmoid", .biased = true, .epsilon = 0},
    {.name = "mistral4",
     .experts = 128,
     .chosen = 4,
     .groups = 4,
     .keptGroups = 2,
     .groupTop = 2,
     .epsilon = 1e-20,
     .scale = 1.5},
    {.name = "ernie4_5_moe", .experts = 64, .chosen = 6, .biased = true, .least = 1e-12},
    {.name = "llama4", .experts = 16, .chosen = 1, .score = "none", .post = "sigmoid"},
    {.name = "sqrtsoftplus",
     .experts = 256,
     .chosen = 6,
     .score = "sqrtsoftplus",
     .biased = true,
     .epsilon = 1e-20,
     .scale = 1.5},
    {.name = "most", .experts = 512, .chosen = 16, .score = "sigmoid", .biased = true, .least = 20},
    {.name = "all", .experts = 24, .chosen = 24, .epsilon = 0.5},
    {.name = "all of the kept groups",
     .experts = 12,
     .chosen = 6,
     .score = "sigmoid",
     .groups = 4,
     .keptGroups = 2,
     .groupTop = 3},
    {.name = "a group each", .experts = 32, .chosen = 3, .groups = 32, .keptGroups = 5, .epsilon = 0},
    {.name = "one", .experts = 1, .chosen = 1, .epsilon = 0},
    {.name = "one, biased", .experts = 1, .chosen = 1, .score = "sigmoid", .biased = true}};

} // namespace mgc::test
