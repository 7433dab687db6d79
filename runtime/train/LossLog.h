// LossLog: the numbers of each step in a file, one JSON object per line, there after each, so that a run can be watched. A file
// that has such lines already is gone on with: runs that continue one another have one log, with one line for each step.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/train/Training.h"

#include <optional>
#include <string>

namespace mgc {

// A step as a line of the log, without its end: step, loss and its terms, grad_norm, lr, tokens, seconds; on a device
// host_seconds too, and what else the step has: docs/runs.md.
std::string lineOf(const TrainingStep &step);
// "validation_loss", "validation_perplexity", "validation_tokens"; of the split test so too.
std::string lineOf(const EvaluationResult &evaluation);

// The step of a line; none: the line is none of a log.
std::optional<int64_t> stepOf(std::string_view line);

// Where a run goes on with the training of a log: at this step, with evaluations of the step before it that come again.
struct LogContinuation {
  int64_t step = 0;
  std::vector<std::string> evaluations = {}; // "validation", "test"
};

class LossLog {
public:
  // With `continued` the lines of that step and of later ones, and those of the evaluations, which a run that was stopped has
  // logged, are cut off. An error where the file cannot be written, another run writes it, or it holds something
  // else than lines of a log.
  Status open(const std::string &path, const std::optional<LogContinuation> &continued);
  // Refuses as open() does, and writes nothing.
  static Status verify(const std::string &path);
  // Nothing where no file is open. A line that has no room is not there at all.
  Status write(const std::string &line);
  // After the last line. An error: the file was deleted meanwhile.
  Status finish() const;

private:
  Result<int64_t> openFile(const std::string &path, int flags); // bytes of a log that is there
  Status append(const std::string &text) const;
  Status mend(int64_t size, const std::optional<LogContinuation> &continued) const;
  bool isDeleted() const;
  std::string path_;
  Descriptor descriptor_;
};

} // namespace mgc
