// See TrainingOfRank.h.
#include "runtime/train/TrainingOfRank.h"

#include "runtime/base/Json.h"
#include "runtime/random/Philox.h"

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

class Settings {
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

void addMasking(const MaskingOptions &masking, Settings &settings) {
  settings.add("--mlm-probability", masking.probability.value_or(kMaskProbability));
  settings.add("--mask-token-id", masking.maskToken.value_or(-1));
  settings.add("--cls-token-id", masking.clsToken.value_or(-1));
  settings.add("--sep-token-id", masking.sepToken.value_or(-1));
  const std::vector<int64_t> &tokens = masking.specialTokens;
  const std::string_view bytes(reinterpret_cast<const char *>(tokens.data()),
                               tokens.size() * sizeof(int64_t));
  settings.add("--special-token-ids", tokens.empty() ? "none"
                                                     : fmt::format("{} tokens with the hash {:016x}",
                                                                   tokens.size(), hashName(bytes)));
}

void addOptimizer(const OptimizerOptions &optimizer, Settings &settings) {
  settings.add("--lr", optimizer.lr);
  settings.add("--min-lr", optimizer.minLr);
  settings.add("--lr-decay-style", optimizer.lrDecayStyle);
  settings.add("--lr-decay-iters", optimizer.lrDecayIters);
  settings.add("--lr-warmup-iters", optimizer.lrWarmupIters);
  settings.add("--lr-warmup-init", optimizer.lrWarmupInit);
  settings.add("--lr-wsd-decay-style", optimizer.lrWsdDecayStyle);
  settings.add("--lr-wsd-decay-iters", optimizer.lrWsdDecayIters);
  const std::vector<double> &rates = optimizer.lrList;
  const std::string_view bytes(reinterpret_cast<const char *>(rates.data()), rates.size() * sizeof(double));
  settings.add("--lr-list",
               rates.empty() ? "none"
                             : fmt::format("{} rates with the hash {:016x}", rates.size(), hashName(bytes)));
  settings.add("--weight-decay", optimizer.weightDecay);
  settings.add("--adam-beta1", optimizer.beta1);
  settings.add("--adam-beta2", optimizer.beta2);
  settings.add("--adam-eps", optimizer.eps);
  settings.add("--clip-grad", optimizer.clipGrad);
  settings.add("--moe-router-bias-update-rate", optimizer.routerBiasRate);
}

} // namespace

RunIdentity identityOf(const TrainingOptions &options, const plan::Plan &plan, uint64_t planHash) {
  Settings settings;
  const auto add = [&](const char *what, const auto &value) { settings.add(what, value); };
  add("--train-iters", options.trainIters);
  add("--exit-interval", options.exitInterval);
  add("--exit-duration-in-mins", options.exitMinutes.value_or(0));
  add("--seed", options.seed);
  add("--eod-token-id", options.documents.endToken.value_or(-1));
  add("--eod-mask-loss", options.documents.masksEnds);
  addMasking(options.masking, settings);
  addOptimizer(options.optimizer, settings);
  add("--weights", options.weights ? "a checkpoint" : "none");
  settings.addPath("--save", options.save);
  add("--save-dtype", options.saveType ? nameOf(*options.saveType) : "that of the plan");
  add("--save-interval", options.saveInterval);
  add("--save-gradients", options.saveGradients ? "a file" : "none");
  add("--moe-per-layer-logging", options.logsLoads);
  add("--profile", options.isProfiled());
  add("--tune-products", options.tuneProducts);
  add("--bf16-products", !options.bf16Product                          ? "measured"
                         : *options.bf16Product == Bf16Product::native ? "native"
                                                                       : "panels");
  // Which steps are captured as graphs: NCCL wants the same of all ranks.
  add("steps of --trace", options.isTraced() ? options.traceSteps : 0);
  add("--no-graphs", options.noGraphs);
  add("--non-deterministic", options.nonDeterministic);
  add("--inject-delays", options.delays ? "a seed" : "none");
  return {options.launch.size, plan.version, planHash, settings.take()};
}

} // namespace mgc
