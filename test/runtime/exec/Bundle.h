// The two-stage plan as a bundle on disk, removed with the object.
#pragma once

#include "test/runtime/TempDir.h"
#include "test/runtime/exec/HandMadePlans.h"

namespace mgc::test {

class Bundle {
public:
  explicit Bundle(int64_t dp = 2, const PlanSizes &sizes = {});
  std::string folder() const { return temporary_.path("plan"); }
  std::string path(const std::string &name) const { return temporary_.path(name); } // next to the plan
  std::string read(const std::string &name) const { return temporary_.read(name); }
  std::string write(const std::string &name, std::string_view text) const { return temporary_.write(name, text); }
  const PipelinePlan &pipeline() const { return pipeline_; }

private:
  TempDir temporary_;
  PipelinePlan pipeline_;
};

} // namespace mgc::test
