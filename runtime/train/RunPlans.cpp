// See RunPlans.h.
#include "runtime/train/RunPlans.h"

#include "plan/Expand.h"
#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/random/Philox.h"

namespace mgc {

Result<plan::Plan> readProvedPlan(const std::string &folder) {
  MGC_ASSIGN(plan, plan::readPlan(folder));
  MGC_TRY(plan::provePlan(plan).at(folder + "/" + plan::kPlanFile));
  return plan;
}

namespace {

// Whether the plan has alike what all plans of a run have.
Status verifyAlike(const plan::Plan &found, const plan::Plan &whole, int64_t size) {
  if (found.globalBatchSize != size)
    return errorf("its global batch is {}, expected {}", found.globalBatchSize, size);
  const bool isSame = found.mesh == whole.mesh && found.modelConfig == whole.modelConfig &&
                      found.modelType == whole.modelType && found.sequenceLength == whole.sequenceLength &&
                      found.target == whole.target && found.dtype == whole.dtype && found.zero == whole.zero &&
                      found.optimizer == whole.optimizer && found.objective == whole.objective &&
                      found.vocabulary == whole.vocabulary;
  return isSame ? Status::ok() : Status::error("it is of another model or layout than the plan of the global batch");
}

plan::Plan expanded(plan::Plan plan) {
  plan.parameters = plan::expandedParameters(plan);
  return plan;
}

} // namespace

static Result<uint64_t> hashOf(const plan::Plan &plan) {
  MGC_ASSIGN(text, plan::printPlan(plan));
  return hashName(text);
}

Result<uint64_t> RunPlans::addHash(const plan::Plan &plan) {
  MGC_ASSIGN(own, hashOf(plan));
  hash_ = hashName(fmt::format("{:016x} {:016x}", hash_, own));
  return own;
}

Status RunPlans::verifySmaller(const TrainingOptions &options) {
  MGC_SET(sizes_, plan::BatchSizes::growing(*options.rampup, whole_.globalBatchSize));
  for (const auto &range : sizes_.ranges().first(sizes_.ranges().size() - 1)) {
    const std::string folder = folderOf(range.firstStep);
    if (std::error_code ignored; !std::filesystem::exists(folder + "/" + plan::kPlanFile, ignored))
      return errorf("--rampup-batch-size: {} has no plan of batches of {}, expected it in {}: compile it with "
                    "mgc compile --rampup-batch-size {} {} {}",
                    folder_, range.size, folder, options.rampup->start, options.rampup->increment,
                    options.rampup->samples);
    MGC_ASSIGN(plan, readProvedPlan(folder));
    MGC_TRY(verifyAlike(plan, whole_, range.size).at("--rampup-batch-size: " + folder));
    MGC_SET(hashes_[range.size], addHash(plan));
  }
  return Status::ok();
}

Result<RunPlans> RunPlans::open(const TrainingOptions &options) {
  MGC_ASSIGN(whole, readProvedPlan(options.plan));
  RunPlans plans(options.plan, std::move(whole));
  if (options.rampup)
    MGC_TRY(plans.verifySmaller(options));
  MGC_TRY(plans.addHash(plans.whole_).status());
  plans.whole_ = expanded(std::move(plans.whole_));
  return plans;
}

std::string RunPlans::folderOf(int64_t step) const {
  const int64_t size = sizes_.rangeOf(step).size;
  return size == whole_.globalBatchSize ? folder_ : folder_ + "/" + plan::batchFolder(std::to_string(size));
}

Result<plan::Plan> RunPlans::planOf(int64_t step) const {
  const std::string folder = folderOf(step);
  if (folder == folder_)
    return whole_;
  MGC_ASSIGN(plan, readProvedPlan(folder));
  MGC_ASSIGN(hash, hashOf(plan));
  if (hash != hashes_.at(sizes_.rangeOf(step).size))
    return errorf("{}: is another plan than when the run began; expected a folder that nobody compiles into meanwhile",
                  folder);
  return expanded(std::move(plan));
}

} // namespace mgc
