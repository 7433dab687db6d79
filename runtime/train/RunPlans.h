// RunPlans: the plans of a run: one, or, where the batch grows, one for each of its sizes (docs/runs.md, Growing batches).
//   in:  the options of the run
//   out: which plan trains a step
#pragma once

#include "runtime/train/Training.h"

#include <map>

namespace mgc {

// A plan, proved; an error names the folder's file.
Result<plan::Plan> readProvedPlan(const std::string &folder);

class RunPlans {
public:
  // Reads and proves all, so that none is missing when it is needed. An error names the folder.
  static Result<RunPlans> open(const TrainingOptions &options);

  const plan::BatchSizes &sizes() const { return sizes_; }
  // Plans have their parameters expanded. This one is for the global batch, in the folder that the options name.
  const plan::Plan &whole() const { return whole_; }
  // The folder and the plan of a step's batch.
  std::string folderOf(int64_t step) const;
  Result<plan::Plan> planOf(int64_t step) const;
  uint64_t hash() const { return hash_; } // hash of all plans, and of what was added
  // Adds the plan to what hash() is of. The plan's own hash.
  Result<uint64_t> addHash(const plan::Plan &plan);

private:
  RunPlans(std::string folder, plan::Plan whole) : folder_(std::move(folder)), whole_(std::move(whole)) {}
  Status verifySmaller(const TrainingOptions &options);

  std::string folder_;
  plan::Plan whole_;
  plan::BatchSizes sizes_{whole_.globalBatchSize};
  uint64_t hash_ = 0;
  std::map<int64_t, uint64_t> hashes_; // hashes of the plans of smaller batches, by size
};

} // namespace mgc
