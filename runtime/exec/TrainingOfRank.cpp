// See TrainingOfRank.h.
#include "runtime/exec/TrainingOfRank.h"

#include "runtime/base/Philox.h"

namespace mgc {

TrainingOptions optionsOfRank(TrainingOptions options) {
  const Launch &launch = options.launch;
  if (launch.isAlone())
    return options;
  for (std::optional<std::string> *path : {&options.trace, &options.profileJson})
    if (*path)
      *path = pathOfRank(**path, launch.rank);
  if (launch.rank != 0)
    options.log.reset();
  return options;
}

std::string pathOfRank(const std::string &path, int64_t rank) {
  std::filesystem::path changed = path;
  const std::string ending = changed.extension().string();
  return changed.replace_extension(fmt::format("rank{}{}", rank, ending)).string();
}

// Of all numbers that the updates get.
static uint64_t hashOf(const OptimizerOptions &optimizer, int64_t trainIters) {
  constexpr int64_t kMostSteps = 1000; // are enough to tell options apart
  uint64_t hash = 0;
  for (int64_t step = 0; step < std::min(trainIters, kMostSteps); ++step) {
    const StepScalars scalars = stepScalars(optimizer, learningRate(optimizer, trainIters, step), step);
    hash = hash * 31 + hashName({reinterpret_cast<const char *>(scalars.data()), sizeof scalars});
  }
  return hash;
}

RunIdentity identityOf(const TrainingOptions &options, const plan::Plan &plan, uint64_t planHash) {
  RunIdentity identity{options.launch.size, plan.version, planHash, {}};
  const auto add = [&](const char *what, const auto &value) {
    identity.settings.push_back(fmt::format("{} = {}", what, value));
  };
  add("--train-iters", options.trainIters);
  add("--seed", options.seed);
  add("hash of the optimizer's flags", hashOf(options.optimizer, options.trainIters));
  add("--weights", options.weights ? "a checkpoint" : "none");
  add("--save", options.save ? "a folder" : "none");
  add("--save-interval", options.saveInterval);
  add("--save-gradients", options.saveGradients ? "a file" : "none");
  add("--profile", options.isProfiled());
  add("--tune-products", options.tuneProducts);
  // Which steps are captured as graphs: NCCL wants the same of all ranks.
  add("steps of --trace", options.trace ? options.traceSteps : 0);
  add("--no-graphs", options.noGraphs);
  add("--inject-delays", options.delays ? "a seed" : "none");
  return identity;
}

} // namespace mgc
