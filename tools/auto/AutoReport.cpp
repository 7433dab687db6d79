// See AutoReport.h.
#include "tools/auto/AutoReport.h"

#include "runtime/base/NumberText.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace mgc::tools {

namespace {

constexpr double kSecondsOfDay = 86400, kHoursOfDay = 24;

using Row = std::vector<std::string>;

// Columns as wide as they must be; `sides`: < for each that stands at the left, > at the right.
std::string tableOf(const std::vector<Row> &rows, std::string_view sides) {
  std::vector<size_t> widths(sides.size(), 0);
  for (const Row &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += sides[i] == '<' ? fmt::format("  {:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

class AutoTexts {
public:
  explicit AutoTexts(const AutoReport &report) : report_(report) {}

  std::string text() const {
    std::string text = head();
    if (report_.sizes.size() > 1)
      return text + sizesText();
    const AutoSize &size = report_.sizes.front();
    if (!size.layouts.empty())
      text += layoutsText(size.layouts, size.devices);
    text += countsText(size.counts);
    if (size.others)
      text += othersText(size);
    if (!size.asked.empty())
      text += askedText(size);
    if (size.pareto)
      text += paretoText(size);
    if (size.changes)
      text += changesText(*size.changes);
    return text;
  }

private:
  std::string head() const {
    std::vector<int64_t> devices;
    for (const AutoSize &size : report_.sizes)
      devices.push_back(size.devices);
    return fmt::format("{} on {} device{} of {}, {} a rank; {} sequence{} of {} tokens a step, {}{}\n", report_.model,
                       fmt::join(devices, ", "), devices == std::vector<int64_t>{1} ? "" : "s", report_.machine,
                       bytesText(double(report_.memory)), report_.globalBatchSize,
                       report_.globalBatchSize == 1 ? "" : "s", report_.sequenceLength, report_.dtype, loadText());
  }

  std::string loadText() const {
    if (!report_.imbalance)
      return "";
    return *report_.imbalance > 1
               ? fmt::format(", the fullest rank with {} times the mean of experts' rows", *report_.imbalance)
               : ", experts loaded evenly";
  }

  Row titles(std::string first) const {
    Row row = {std::move(first), "step", "tokens/s", "MFU", "memory"};
    if (report_.trainSamples > 0)
      row.insert(row.end(), {"days", "device-hours"});
    row.emplace_back("layout");
    return row;
  }

  std::string_view sides() const { return report_.trainSamples > 0 ? ">>>>>>><" : ">>>>><"; }

  Row rowOf(std::string first, const ProvedLayout &layout, int64_t devices) const {
    Row row = {std::move(first), secondsText(layout.seconds), fmt::format("{:.0f}", layout.tokensPerSecond),
               fmt::format("{:.1f} %", 100 * layout.utilisation),
               fmt::format("{} ({:.0f} %)", bytesText(double(layout.bytes)),
                           100 * double(layout.bytes) / double(report_.memory))};
    if (report_.trainSamples > 0) {
      const double days = report_.daysOf(layout.seconds);
      row.push_back(fmt::format("{:.2f}", days));
      row.push_back(fmt::format("{:.1f}", days * kHoursOfDay * double(devices)));
    }
    row.push_back(layout.layout);
    return row;
  }

  // With the commands below it.
  std::string layoutsText(const std::vector<ProvedLayout> &layouts, int64_t devices) const {
    std::vector<Row> rows = {titles("")};
    std::string commands;
    for (const ProvedLayout &layout : layouts) {
      commands += fmt::format("  {}  {}\n", rows.size(), layout.command);
      rows.push_back(rowOf(std::to_string(rows.size()), layout, devices));
    }
    return tableOf(rows, sides()) + "commands:\n" + commands;
  }

  static std::string countsText(const AutoCounts &counts) {
    const std::string cuts = counts.cuts == 0 ? "" : fmt::format("{} of other cuts estimated; ", counts.cuts);
    return fmt::format(
        "layouts: {} enumerated, {} refused, {} left out by memory, {} by time, {} estimated, of which {} "
        "fit with no policy; {}{} shapes compiled {} times; {}\n",
        counts.enumerated, counts.refused, counts.tooLarge, counts.tooSlow, counts.estimated, counts.unfit, cuts,
        counts.shapes, counts.compiled, secondsText(counts.seconds));
  }

  std::string sizesText() const {
    std::vector<Row> rows = {titles("devices")};
    std::string commands;
    for (const AutoSize &size : report_.sizes) {
      if (size.layouts.empty()) {
        Row &none = rows.emplace_back(rows.front().size());
        none.front() = std::to_string(size.devices), none.back() = "none";
        continue;
      }
      rows.push_back(rowOf(std::to_string(size.devices), size.layouts.front(), size.devices));
      commands += fmt::format("  {}  {}\n", size.devices, size.layouts.front().command);
    }
    std::string text = tableOf(rows, sides()) + (commands.empty() ? "" : "commands:\n" + commands);
    for (const AutoSize &size : report_.sizes)
      text += fmt::format("{} devices, {}", size.devices, countsText(size.counts));
    return text;
  }

  static std::string othersText(const AutoSize &size) {
    if (size.others->empty())
      return "why not: no option that was searched has another value\n";
    std::vector<Row> rows;
    const double best = size.layouts.front().seconds;
    for (const OtherValue &other : *size.others) {
      const std::string value = fmt::format("{} {}", other.flag, other.value);
      rows.push_back(other.layout.empty()
                         ? Row{value, "none", "", other.refusal, ""}
                         : Row{value, fmt::format("{:+.1f} %", 100 * (other.seconds / best - 1)),
                               bytesText(double(other.bytes)), other.layout, differencesText(other.differences, best)});
    }
    return "why not, the best layout with another value:\n" + tableOf(rows, "<>><<");
  }

  static std::string askedText(const AutoSize &size) {
    std::string text = "explained, the best layout with these options:\n";
    for (const AskedLayout &asked : size.asked)
      text += asked.layout ? fmt::format("  {}: {}\n", asked.asked, placeText(asked, size))
                           : fmt::format("  {}: none: {}\n", asked.asked, asked.refusal);
    return text;
  }

  static std::string placeText(const AskedLayout &asked, const AutoSize &size) {
    const double best = size.layouts.front().seconds;
    const ProvedLayout &own = *asked.layout;
    if (own.seconds == 0)
      return fmt::format("no plan, {}\n    {}", own.problem, own.layout);
    const auto place =
        1 + std::ranges::count_if(size.layouts, [&](const ProvedLayout &other) { return other.seconds < own.seconds; });
    const std::string behind = own.seconds < best ? "before number 1" // with other options than the command line has
                               : std::cmp_less_equal(place, size.layouts.size())
                                   ? fmt::format("number {}", place)
                                   : fmt::format("behind number {}", size.layouts.size());
    const std::string differences = differencesText(asked.differences, best);
    return fmt::format(
        "{}, {}, {}, {}\n    {}{}", secondsText(own.seconds),
        own.seconds > best   ? fmt::format("{:.1f} % slower than the first", 100 * (own.seconds / best - 1))
        : own.seconds < best ? fmt::format("{:.1f} % faster than the first", 100 * (1 - own.seconds / best))
                             : "as fast as the first",
        behind, bytesText(double(own.bytes)), own.layout, differences.empty() ? "" : "\n    " + differences);
  }

  std::string paretoText(const AutoSize &size) const {
    return "the fastest within less and less memory:\n" + layoutsText(size.pareto->layouts, size.devices) +
           fmt::format("none fits into {}\n", bytesText(double(size.pareto->tooLittle)));
  }

  static std::string changesText(const std::vector<ChangedMachine> &changes) {
    if (changes.front().seconds.size() < 2)
      return "sensitivity: one layout alone has no order\n";
    std::vector<Row> rows;
    for (const ChangedMachine &changed : changes) {
      const std::vector<std::string> overtaken = overtakenIn(changed.order());
      rows.push_back(
          {changed.change, overtaken.empty() ? "does not change" : fmt::format("{}", fmt::join(overtaken, ", "))});
    }
    return fmt::format("sensitivity, the order of the first {}:\n", changes.front().seconds.size()) +
           tableOf(rows, "<<");
  }
  // "2 before 1": neighbours that have changed places.
  static std::vector<std::string> overtakenIn(const std::vector<int64_t> &order) {
    std::vector<std::string> texts;
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i - 1] > order[i])
        texts.push_back(fmt::format("{} before {}", order[i - 1], order[i]));
    return texts;
  }

  static std::string differencesText(const std::vector<PartDifference> &differences, double best) {
    std::vector<std::string> texts;
    for (const PartDifference &difference : differences)
      texts.push_back(fmt::format("{} {:+.1f} %", difference.part, 100 * difference.seconds / best));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  const AutoReport &report_;
};

} // namespace

std::string differenceIn(const ProvedLayout &layout, int64_t memory, int64_t hostMemory) {
  constexpr double kMostDifference = 0.01;
  if (std::abs(layout.searchedSeconds - layout.seconds) > kMostDifference * layout.seconds)
    return fmt::format("the search says {:.6f} s, the plan {:.6f} s ({:+.2f} %)", layout.searchedSeconds,
                       layout.seconds, 100 * (layout.searchedSeconds / layout.seconds - 1));
  if (layout.bytes > memory)
    return fmt::format("the search says {} bytes, the plan {}, of {}", layout.searchedBytes, layout.bytes, memory);
  if (layout.hostBytes > hostMemory)
    return fmt::format("the plan has {} bytes of the host, of {}", layout.hostBytes, hostMemory);
  return {};
}

std::vector<int64_t> ChangedMachine::order() const {
  std::vector<int64_t> numbers(seconds.size());
  std::iota(numbers.begin(), numbers.end(), int64_t(1));
  std::ranges::stable_sort(numbers, {}, [&](int64_t number) { return seconds[size_t(number - 1)]; });
  return numbers;
}

void ParetoRows::add(ProvedLayout next) {
  while (next.problem.empty() && !layouts.empty() && layouts.back().seconds >= next.seconds)
    layouts.pop_back();
  layouts.push_back(std::move(next));
}

std::vector<ProvedLayout> AutoSize::all() const {
  std::vector<ProvedLayout> all = layouts;
  if (nearest && nearest->layout)
    all.push_back(*nearest->layout);
  for (const AskedLayout &own : asked)
    if (own.layout)
      all.push_back(*own.layout);
  if (pareto)
    all.insert(all.end(), pareto->layouts.begin(), pareto->layouts.end());
  return all;
}

double AutoReport::daysOf(double secondsOfStep) const {
  return std::ceil(double(trainSamples) / double(globalBatchSize)) * secondsOfStep / kSecondsOfDay;
}

std::string textOf(const AutoReport &report) { return AutoTexts(report).text(); }

} // namespace mgc::tools
