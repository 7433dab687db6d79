// See RunOptionsPage.h.
#include "tools/run/RunOptionsPage.h"

#include "tools/flags/Wrapped.h"
#include "tools/run/RunFlags.h"

#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

std::string valuesOf(const OptionRange &range) {
  switch (range.kind) {
  case OptionRange::Kind::file:
    return "a file that is there";
  case OptionRange::Kind::path:
    return "a path that is there";
  case OptionRange::Kind::whole:
    return fmt::format("whole numbers{}{}",
                       range.least > OptionRange().least ? fmt::format(" from {}", range.least) : "",
                       range.most < OptionRange().most ? fmt::format(" to {}", range.most) : "");
  case OptionRange::Kind::number:
    return range.lowest > OptionRange().lowest ? fmt::format("{} to {}", range.lowest, range.highest) : "numbers";
  case OptionRange::Kind::words:
    return fmt::format("{}", fmt::join(range.words, ", "));
  default:
    return "";
  }
}

// The words about a run that goes on from a checkpoint of another value; empty: it may.
std::string_view onResume(Agrees agrees) {
  switch (agrees) {
  case Agrees::noted:
  case Agrees::evaluation:
    return "kept in a checkpoint: a run that goes on with another value says so";
  case Agrees::data:
  case Agrees::corpus:
    return "kept in a checkpoint: another value is refused without --finetune";
  case Agrees::contents:
    return "kept in a checkpoint: other contents are refused without --finetune, another name is not";
  case Agrees::optimizer:
    return "kept in a checkpoint: another value is refused without --override-opt-param-scheduler";
  case Agrees::no:
  case Agrees::elsewhere:
  case Agrees::run:
    return "";
  }
  return "";
}

// "- `--lr`: Learning rate (values: numbers; default: 0.001; ..)": what the row says.
std::string lineOf(const RunOption &row) {
  const TrainingOptions standard;
  std::vector<std::string> facts;
  if (const std::string values = valuesOf(row.range); !values.empty())
    facts.push_back("values: " + values);
  const bool isWord = std::holds_alternative<SetWord>(row.member);
  if (const std::string value = isWord && row.details.text ? row.details.text(standard) : row.valueIn(standard);
      !row.isSwitch() && !value.empty() && value != "[]" && value != row.details.none)
    facts.push_back("default: " + value);
  if (!row.details.needs.empty())
    facts.push_back(fmt::format("with {}", fmt::join(row.details.needs, ", ")));
  if (!row.details.excludes.empty())
    facts.push_back(fmt::format("without {}", fmt::join(row.details.excludes, ", ")));
  if (row.isCompared())
    facts.push_back("the same in all processes");
  if (const std::string_view words = onResume(row.agrees); !words.empty())
    facts.emplace_back(words);
  const std::string details = facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, "; "));
  return wrapped(fmt::format("- `{}`: {}{}", fmt::join(flagsOf(row), "`, `"), row.help, details));
}

} // namespace

std::string runOptionsPage() {
  std::string text =
                  "<!-- Made by `mgrun --list-options`; do not edit. -->\n\n# Options of a run\n\n"
                  "Flags of `mgrun`; runtime/train/RunOptionTable.cpp has a row for each. A run that goes on from a\n"
                  "checkpoint may have other values, but for those that a checkpoint keeps.\n",
              group;
  for (const RunOption &row : runOptions()) {
    if (row.group != group)
      text += fmt::format("\n## {}\n\n", group = row.group);
    text += lineOf(row);
  }
  return text;
}

} // namespace mgc::tools
