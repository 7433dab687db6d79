// See TrainingOfRank.h.
#include "runtime/train/TrainingOfRank.h"

#include "runtime/base/Json.h"
#include "runtime/random/Philox.h"
#include "runtime/train/RunSettings.h"

namespace mgc {

TrainingOptions optionsOfRank(TrainingOptions options) {
  const Launch &launch = options.launch;
  if (launch.isAlone())
    return options;
  for (std::optional<std::string> *path : {&options.trace, &options.profileJson})
    if (*path)
      *path = pathOfRank(**path, launch.rank);
  if (options.page)
    options.page->path = pathOfRank(options.page->path, launch.rank);
  if (launch.rank != 0)
    options.log.reset(), options.tensorboard.reset();
  return options;
}

std::string pathOfRank(const std::string &path, int64_t rank) {
  std::filesystem::path changed = path;
  const std::string ending = changed.extension().string();
  return changed.replace_extension(fmt::format("rank{}{}", rank, ending)).string();
}

namespace {

class SettingLines {
public:
  template <typename Value> void add(std::string_view what, const Value &value) {
    lines_.push_back(fmt::format("{} = {}", what, value));
  }
  void addPath(std::string_view what, const std::optional<std::string> &path) {
    add(what, path ? shortened(*path) : "none");
  }
  std::vector<std::string> take() { return std::move(lines_); }

private:
  // Lines must be short, and have no control characters.
  static std::string shortened(const std::string &path) {
    constexpr size_t kLongest = 120;
    return path.size() <= kLongest && printable(path) == path
               ? path
               : fmt::format("a name with the hash {:016x}", hashName(path));
  }
  std::vector<std::string> lines_;
};

} // namespace

RunIdentity identityOf(const TrainingOptions &options, const plan::Plan &plan, uint64_t planHash,
                       const std::string &start) {
  SettingLines settings;
  const auto add = [&](const char *what, const auto &value) { settings.add(what, value); };
  add("--train-iters", options.trainIters);
  add("--train-samples", options.trainSamples.value_or(0));
  add("--exit-interval", options.exitInterval);
  add("--exit-duration-in-mins", options.exitMinutes.value_or(0));
  add("--eval-interval", options.evalInterval);
  if (options.evalInterval > 0)
    add("--eval-iters", options.evalIters);
  for (const Settings &known : {dataSettings(options), optimizerSettings(options, options.trainIters)})
    for (const auto &[flag, value] : known)
      add(flag.c_str(), value);
  add("--check-for-nan-in-loss-and-grad", options.checks.finite);
  add("--check-for-spiky-loss", options.checks.spikyLoss);
  add("--check-for-large-grads", options.checks.largeGradients);
  add("--skip-bad-steps", options.checks.skips);
  add("--load", start);
  add("--finetune", options.finetune);
  settings.addPath("--save", options.save);
  add("--save-dtype", options.saveType ? nameOf(*options.saveType) : "that of the plan");
  add("--save-interval", options.saveInterval);
  add("--async-save", options.asyncSave);
  add("--no-save-optim", !options.savesState);
  add("--save-gradients", options.saveGradients ? "a file" : "none");
  add("--moe-per-layer-logging", options.logsLoads);
  add("--log-norms-by-layer", options.logsNormsByLayer);
  add("--timing-log-level", options.timersLevel);
  if (options.timersLevel > 0)
    add("--log-interval", options.timersInterval);
  add("--profile", options.isProfiled());
  add("--tune-products", options.tuneProducts);
  add("--bf16-products", !options.bf16Product                          ? "measured"
                         : *options.bf16Product == Bf16Product::native ? "native"
                                                                       : "panels");
  // Steps that are captured as graphs: NCCL needs the same ones on all ranks.
  add("steps of --trace", options.isTraced() ? options.traceSteps : 0);
  add("--no-graphs", options.noGraphs);
  add("--non-deterministic", options.nonDeterministic);
  add("--inject-delays", options.delays ? "a seed" : "none");
  return {options.launch.size, plan.version, planHash, settings.take()};
}

} // namespace mgc
