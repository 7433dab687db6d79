// RunCurves: the steps and the validation losses that the page of a run draws.
//   in:  the log that a run goes on with, then each step and each evaluation of the run
//   out: lines of the log: each `stride`-th step from the first on, and the last; [step, validation loss] likewise
// The same steps give the same points, whether one run made them or several that went on with one log.
#pragma once

#include "runtime/train/Training.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

class RunCurves {
public:
  // Points of a curve: more than it has columns. If there are more steps, the stride is the least power of two that is enough.
  static constexpr size_t kMostPoints = 4096;

  // The steps and validation losses of a training that goes on at `step`: those before `step` that no later line of the log
  // repeats. `path` was opened by LossLog, which has cut off the repeated steps at its end. An error, for people: the log cannot be
  // read, or its last step is not the one before `step`; then there are no points of it.
  Status readLog(const std::string &path, int64_t step);
  // A line of the log; later steps that are there already are superseded.
  void addStep(int64_t step, std::string line);
  void addValidation(int64_t step, double loss);

  nlohmann::json steps() const; // lines that are no objects are left out
  nlohmann::json validation() const;
  int64_t stride() const { return stride_; }

private:
  struct Point {
    int64_t step = 0;
    std::string line;
  };
  void addLine(std::string line);
  void cutSteps(int64_t step); // this one and later ones
  void cutValidation(int64_t step);
  void thin();

  std::vector<Point> points_;
  std::optional<Point> last_;
  std::vector<std::pair<int64_t, double>> validation_; // all of them: a number each
  int64_t stride_ = 1;
};

} // namespace mgc::tools
