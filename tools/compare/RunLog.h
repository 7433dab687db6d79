// RunLog: the curves of a run.
//   in:  a file of mgrun --log
//   out: its steps in their order, of a step that is there twice the later one
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mgc::tools {

inline constexpr double kNoNumber =
    std::numeric_limits<double>::quiet_NaN(); // where the log has none, or one that is not finite

struct LoggedStep {
  int64_t step = 0;
  double loss = kNoNumber, gradientNorm = kNoNumber;
  double tokens = 0; // counted in the loss, of all steps of the log up to this one
  double tokensPerSecond = kNoNumber;
};

struct LoggedEvaluation {
  int64_t step = 0;
  double loss = kNoNumber, tokens = 0; // tokens: those of the steps before it
};

struct RunLog {
  std::string path;
  std::vector<LoggedStep> steps;
  std::vector<LoggedEvaluation> validation;
};

// A last line that is not whole is left out, as the run may be writing it. An error names the file and the line.
Result<RunLog> readRunLog(const std::string &path);

} // namespace mgc::tools
