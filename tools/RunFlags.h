// The flags of mgrun: what they are, and the options of a training that they say.
//   in:  the command line's words
//   out: RunFlags, whose `training` is complete
#pragma once

#include "runtime/train/Training.h"
#include "tools/flags/FlagChecks.h"

namespace mgc::tools {

// --data-path and what belongs to it, as it was typed.
struct CorpusFlags {
  std::vector<std::string> path;
  std::array<std::vector<std::string>, kSplits.size()> perSplit;
  std::string split = "969,30,1";
  CorpusOptions options;
};

// Megatron-LM's other way to say how long a training is. Steps follow from it, with the plan's global batch.
struct SampleFlags {
  std::optional<int64_t> train, decay, warmup, wsdDecay;
  std::vector<int64_t> rampup; // three numbers, or none
};

// All flags. What is not in `training` yet gets there by readCorpusFlags and readRunFlags, or is of mgrun itself.
struct RunFlags {
  TrainingOptions training;
  CorpusFlags corpus;
  bool mockData = false;
  SampleFlags samples;
  int64_t logInterval = 100;
  std::string timersOf = "minmax"; // --timing-log-option
  double timeoutSeconds = 600;
  int64_t maxRestarts = 0;
  std::string lrList;
  std::optional<double> warmupFraction;
  std::string launch = "auto";
  LaunchFlags launchFlags;
};

void addRunFlags(CLI::App &app, RunFlags &flags);
// --data-path and its like; an error is one of usage.
Status readCorpusFlags(const CLI::App &app, RunFlags &flags);
// Reads what flags name (files, the plan, a launcher's variables), and completes the options by it.
Status readRunFlags(RunFlags &flags);

} // namespace mgc::tools
