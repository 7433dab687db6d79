// See AutoReport.h.
#include "tools/auto/AutoReport.h"

#include "runtime/base/NumberText.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

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
      text += layoutsText(size) + commandsText(size);
    text += countsText(size.counts);
    return size.hasOthers ? text + othersText(size) : text;
  }

private:
  std::string head() const {
    std::vector<int64_t> devices;
    for (const AutoSize &size : report_.sizes)
      devices.push_back(size.devices);
    return fmt::format("{} on {} device{} of {}, {} a rank; {} sequence{} of {} tokens a step, {}\n", report_.model,
                       fmt::join(devices, ", "), devices == std::vector<int64_t>{1} ? "" : "s", report_.machine,
                       bytesText(double(report_.memory)), report_.globalBatchSize,
                       report_.globalBatchSize == 1 ? "" : "s", report_.sequenceLength, report_.dtype);
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

  std::string layoutsText(const AutoSize &size) const {
    std::vector<Row> rows = {titles("")};
    for (const ProvedLayout &layout : size.layouts)
      rows.push_back(rowOf(std::to_string(rows.size()), layout, size.devices));
    return tableOf(rows, sides());
  }

  static std::string commandsText(const AutoSize &size) {
    std::string text = "commands:\n";
    for (size_t i = 0; i < size.layouts.size(); ++i)
      text += fmt::format("  {}  {}\n", i + 1, size.layouts[i].command);
    return text;
  }

  static std::string countsText(const AutoCounts &counts) {
    return fmt::format(
        "layouts: {} enumerated, {} refused, {} left out by memory, {} by time, {} estimated, of which {} "
        "fit with no policy; {} shapes compiled {} times; {}\n",
        counts.enumerated, counts.refused, counts.tooLarge, counts.tooSlow, counts.estimated, counts.unfit,
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
    if (size.others.empty())
      return "why not: no option that was searched has another value\n";
    std::vector<Row> rows;
    const double best = size.layouts.front().seconds;
    for (const OtherValue &other : size.others) {
      const std::string value = fmt::format("{} {}", other.flag, other.value);
      rows.push_back(other.layout.empty()
                         ? Row{value, "none", "", other.refusal, ""}
                         : Row{value, fmt::format("{:+.1f} %", 100 * (other.seconds / best - 1)),
                               bytesText(double(other.bytes)), other.layout, differencesText(other, best)});
    }
    return "why not, the best layout with another value:\n" + tableOf(rows, "<>><<");
  }

  static std::string differencesText(const OtherValue &other, double best) {
    std::vector<std::string> texts;
    for (const PartDifference &difference : other.differences)
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

double AutoReport::daysOf(double secondsOfStep) const {
  return std::ceil(double(trainSamples) / double(globalBatchSize)) * secondsOfStep / kSecondsOfDay;
}

std::string textOf(const AutoReport &report) { return AutoTexts(report).text(); }

} // namespace mgc::tools
