// See Comparison.h.
#include "tools/compare/Comparison.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <functional>
#include <map>

namespace mgc::tools {

namespace {

using Json = nlohmann::json;

std::string numberText(double value) { return std::isnan(value) ? "-" : fmt::format("{:.5g}", value); }

std::string countText(double count) {
  return count >= 1e9   ? fmt::format("{:.2f} G", count * 1e-9)
         : count >= 1e6 ? fmt::format("{:.2f} M", count * 1e-6)
                        : fmt::format("{:.0f}", count);
}

template <typename Point> std::string leastText(const std::vector<Point> &points) {
  const Point *least = nullptr;
  for (const Point &point : points)
    if (!std::isnan(point.loss) && (!least || point.loss < least->loss))
      least = &point;
  return least ? fmt::format("{} at step {}", numberText(least->loss), least->step) : "-";
}

template <typename Point> std::string lastText(const std::vector<Point> &points) {
  return points.empty() ? "-" : numberText(points.back().loss);
}

std::string medianRate(const RunLog &run) {
  std::vector<double> rates;
  for (const LoggedStep &step : run.steps)
    if (!std::isnan(step.tokensPerSecond))
      rates.push_back(step.tokensPerSecond);
  if (rates.empty())
    return "-";
  const auto middle = rates.begin() + std::ssize(rates) / 2;
  std::ranges::nth_element(rates, middle);
  return fmt::format("{:.0f}", *middle);
}

std::vector<ComparedFact> factsOf(const std::vector<RunLog> &runs) {
  const std::vector<std::pair<std::string, std::function<std::string(const RunLog &)>>> rows = {
      {"steps",
       [](const RunLog &run) { return fmt::format("{} to {}", run.steps.front().step, run.steps.back().step); }},
      {"tokens", [](const RunLog &run) { return countText(run.steps.back().tokens); }},
      {"last loss", [](const RunLog &run) { return lastText(run.steps); }},
      {"least loss", [](const RunLog &run) { return leastText(run.steps); }},
      {"last validation loss", [](const RunLog &run) { return lastText(run.validation); }},
      {"least validation loss", [](const RunLog &run) { return leastText(run.validation); }},
      {"median tokens/s", medianRate}};
  std::vector<ComparedFact> facts;
  for (const auto &[name, text] : rows) {
    ComparedFact fact{name, {}};
    for (const RunLog &run : runs)
      fact.ofRuns.push_back(text(run));
    facts.push_back(std::move(fact));
  }
  std::erase_if(facts, [](const ComparedFact &fact) { // no run was evaluated
    return std::ranges::all_of(fact.ofRuns, [](const std::string &text) { return text == "-"; });
  });
  return facts;
}

using Losses = std::vector<double>; // by run

// The steps with a loss in all runs.
std::map<int64_t, Losses> equalSteps(const std::vector<RunLog> &runs) {
  std::map<int64_t, Losses> steps;
  for (size_t run = 0; run < runs.size(); ++run)
    for (const LoggedStep &step : runs[run].steps)
      if (auto &losses = steps[step.step]; losses.size() == run && !std::isnan(step.loss))
        losses.push_back(step.loss);
  std::erase_if(steps, [&](const auto &entry) { return entry.second.size() < runs.size(); });
  return steps;
}

std::vector<ComparedFact> differencesAt(const std::map<int64_t, Losses> &steps) {
  constexpr size_t kShown = 8;
  std::vector<ComparedFact> differences;
  const size_t stride = std::max<size_t>(1, (steps.size() + kShown - 2) / (kShown - 1));
  size_t index = 0;
  for (const auto &[step, losses] : steps) {
    if (index++ % stride != 0 && index != steps.size())
      continue;
    ComparedFact fact{fmt::format("loss at step {}", step), {numberText(losses.front())}};
    for (size_t run = 1; run < losses.size(); ++run)
      fact.ofRuns.push_back(fmt::format("{:+.5g}", losses[run] - losses.front()));
    differences.push_back(std::move(fact));
  }
  return differences;
}

std::string agreementAt(const std::map<int64_t, Losses> &steps) {
  if (steps.empty())
    return "no step has a loss in all runs";
  size_t equal = 0;
  int64_t furthest = 0;
  double most = 0;
  for (const auto &[step, losses] : steps) {
    const auto [low, high] = std::ranges::minmax(losses);
    equal += low == high;
    if (high - low > most)
      most = high - low, furthest = step;
  }
  if (equal == steps.size())
    return fmt::format("the losses of all {} equal steps are the same", steps.size());
  return fmt::format("{} of {} equal steps have the same loss; the largest difference is {} at step {}", equal,
                     steps.size(), numberText(most), furthest);
}

Json numbers(const auto &points, auto member) {
  Json list = Json::array();
  for (const auto &point : points) {
    const double value = static_cast<double>(point.*member);
    list.push_back(std::isfinite(value) ? Json(value) : Json());
  }
  return list;
}

// More than a chart has columns; the last point stays.
template <typename Point> std::vector<Point> thinned(const std::vector<Point> &points) {
  constexpr size_t kMost = 4096;
  const size_t stride = points.size() / kMost + 1;
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size(); ++i)
    if (i % stride == 0 || i + 1 == points.size())
      kept.push_back(points[i]);
  return kept;
}

Json rowsOf(const std::vector<ComparedFact> &facts) {
  Json rows = Json::array();
  for (const ComparedFact &fact : facts) {
    Json row = Json::array({fact.name});
    for (const std::string &text : fact.ofRuns)
      row.push_back(text);
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

Comparison compareRuns(std::vector<RunLog> runs) {
  Comparison comparison;
  comparison.facts = factsOf(runs);
  if (runs.size() > 1) {
    const std::map<int64_t, Losses> steps = equalSteps(runs);
    comparison.differences = differencesAt(steps);
    comparison.agreement = agreementAt(steps);
  }
  comparison.runs = std::move(runs);
  return comparison;
}

std::string textOf(const Comparison &comparison) {
  std::vector<ComparedFact> rows = {{"", {}}};
  for (const RunLog &run : comparison.runs)
    rows.front().ofRuns.push_back(run.path);
  rows.insert(rows.end(), comparison.facts.begin(), comparison.facts.end());
  rows.insert(rows.end(), comparison.differences.begin(), comparison.differences.end());
  std::vector<size_t> widths(comparison.runs.size() + 1);
  for (const ComparedFact &row : rows) {
    widths[0] = std::max(widths[0], row.name.size());
    for (size_t run = 0; run < row.ofRuns.size(); ++run)
      widths[run + 1] = std::max(widths[run + 1], row.ofRuns[run].size());
  }
  std::string text;
  for (const ComparedFact &row : rows) {
    text += fmt::format("{:<{}}", row.name, widths[0]);
    for (size_t run = 0; run < row.ofRuns.size(); ++run)
      text += fmt::format("  {:>{}}", row.ofRuns[run], widths[run + 1]);
    text += "\n";
  }
  return comparison.agreement.empty() ? text : text + comparison.agreement + "\n";
}

Json comparisonData(const Comparison &comparison) {
  Json runs = Json::array();
  for (const RunLog &run : comparison.runs) {
    const auto steps = thinned(run.steps);
    const auto validation = thinned(run.validation);
    runs.push_back({{"name", run.path},
                    {"steps",
                     {{"step", numbers(steps, &LoggedStep::step)},
                      {"tokens", numbers(steps, &LoggedStep::tokens)},
                      {"loss", numbers(steps, &LoggedStep::loss)},
                      {"grad_norm", numbers(steps, &LoggedStep::gradientNorm)},
                      {"tokens_per_second", numbers(steps, &LoggedStep::tokensPerSecond)}}},
                    {"validation",
                     {{"step", numbers(validation, &LoggedEvaluation::step)},
                      {"tokens", numbers(validation, &LoggedEvaluation::tokens)},
                      {"loss", numbers(validation, &LoggedEvaluation::loss)}}}});
  }
  return {{"runs", std::move(runs)},
          {"facts", rowsOf(comparison.facts)},
          {"differences", rowsOf(comparison.differences)},
          {"agreement", comparison.agreement}};
}

} // namespace mgc::tools
