// See RunOfLine.h.
#include "tools/translate/RunOfLine.h"

#include "runtime/train/OptimizerSchedule.h"
#include "tools/run/RunFlags.h"

#include <algorithm>

namespace mgc::tools {

static Result<TrainingOptions> parseRun(const Draft &draft) {
  TrainingOptions options;
  CLI::App app;
  addRunFlags(app, options);
  std::vector<std::string> words = {"plan"};
  for (const CommandOption &option : draft.options)
    if (option.tool == kRun)
      words.insert(words.end(), option.words.begin(), option.words.end());
  std::ranges::reverse(words);
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError &error) {
    return Status::error(error.what());
  }
  return options;
}

Result<TrainingOptions> readRun(const Draft &draft) {
  MGC_ASSIGN(options, parseRun(draft));
  std::vector<std::string> notes;
  MGC_TRY(readCorpusFlags(options, notes));
  MGC_TRY(readRunFlags(options));
  return options;
}

std::string problemOfRun(const Draft &draft) {
  if (const Status parsed = parseRun(draft).status(); !parsed.isOk())
    return parsed.message();
  const Result<TrainingOptions> options = readRun(draft);
  if (!options.isOk())
    return "";
  const Status schedule = checkOptimizer(options->optimizer, options->scheduleLength(), options->trainIters);
  return schedule.isOk() ? "" : schedule.message();
}

} // namespace mgc::tools
