// See IdleFlags.h.
#include "tools/IdleFlags.h"

#include "runtime/base/Cores.h"

namespace mgc::tools {

namespace {

bool hasList(const TrainingOptions &options) { return !options.optimizer.lrList.empty(); }
bool isConstant(const TrainingOptions &options) { return options.optimizer.lrDecayStyle == "constant"; }
bool isNotWsd(const TrainingOptions &options) { return options.optimizer.lrDecayStyle != "WSD"; }
bool hasNoWarmup(const TrainingOptions &options) { return options.optimizer.lrWarmup == 0; }
bool hasNoLoad(const TrainingOptions &options) { return !options.load; }
bool hasNoStart(const TrainingOptions &options) { return !options.load && !options.restartsFromLatest; }
bool savesAtTheEnd(const TrainingOptions &options) { return options.saveInterval == 0; }
bool savesWeightsAlone(const TrainingOptions &options) { return !options.savesState; }
bool writesNoFile(const TrainingOptions &options) {
  return !options.save && !options.saveGradients && !options.trace && !options.profileJson && !options.page;
}
bool isNotEvaluated(const TrainingOptions &options) { return options.evalInterval == 0; }
bool checksNothing(const TrainingOptions &options) {
  return !options.checks.finite && !options.checks.spikyLoss && !options.checks.largeGradients;
}
bool hasNoCorpus(const TrainingOptions &options) { return !options.corpus; }
bool isNotCyclic(const TrainingOptions &options) {
  return options.corpus && options.corpus->schedule != SampleOrderKind::cyclic;
}
bool isLaunched(const TrainingOptions &options) { return options.launch.by != Launch().by; }
bool isNotLaunched(const TrainingOptions &options) { return !isLaunched(options); }

// A flag does nothing where the run is such.
struct FlagRow {
  bool (*isIdle)(const TrainingOptions &options);
  const char *why;
  std::vector<const char *> flags;
};

const std::vector<FlagRow> &rows() {
  static const std::vector<FlagRow> rows = {
      {hasList,
       "--lr-list has the rate of each step",
       {"--lr", "--min-lr", "--lr-decay-style", "--lr-decay-iters", "--lr-warmup-iters",
        "--lr-warmup-fraction", "--lr-warmup-init", "--lr-wsd-decay-style", "--lr-wsd-decay-iters",
        "--lr-decay-samples", "--lr-warmup-samples", "--lr-wsd-decay-samples"}},
      {isConstant,
       "--lr-decay-style constant stays at --lr",
       {"--min-lr", "--lr-decay-iters", "--lr-decay-samples"}},
      {isNotWsd,
       "it is of --lr-decay-style WSD",
       {"--lr-wsd-decay-style", "--lr-wsd-decay-iters", "--lr-wsd-decay-samples"}},
      {hasNoWarmup, "there is no warmup: --lr-warmup-iters is 0", {"--lr-warmup-init"}},
      {hasNoLoad, "there is no --load", {"--ignore-extra-weights"}},
      {hasNoStart,
       "there is no --load and no --restart-from-latest",
       {"--ignore-config", "--override-opt-param-scheduler"}},
      {isNotEvaluated,
       "there is no --eval-interval",
       {"--eval-iters", "--valid-data", "--valid-data-path", "--test-data-path"}},
      {checksNothing, "nothing says which steps are bad: --check-for-spiky-loss would", {"--skip-bad-steps"}},
      {hasNoCorpus,
       "there is no --data-path and no --train-data-path",
       {"--data-cache-path", "--pad-token-id", "--dataloader-inter-document-masking", "--dataloader-type",
        "--no-data-sharding"}},
      {isNotCyclic, "it is of --dataloader-type cyclic", {"--no-data-sharding"}},
      {savesAtTheEnd, "it is of the checkpoints of --save-interval", {"--async-save"}},
      {savesWeightsAlone,
       "--no-save-optim saves no checkpoints",
       {"--save-retain", "--async-save", "--restart-from-latest"}},
      {writesNoFile, "there is no --save, --save-gradients, --trace, --profile-json or --html", {"--force"}},
      {isNotLaunched,
       "all ranks are in this one process: --world-size, or the variables of a launcher, would say otherwise",
       {"--master-addr", "--master-port", "--local-rank"}},
      {isLaunched,
       "processes that a launcher started cannot start each other: torchrun has --max-restarts, a script "
       "starts mpirun or srun again",
       {"--max-restarts"}},
  };
  return rows;
}

} // namespace

Status verifyEffect(const TrainingOptions &options, const IsGiven &isGiven) {
  std::string text;
  for (const FlagRow &row : rows())
    for (const char *flag : row.flags)
      if (isGiven(flag) && row.isIdle(options))
        text +=
            fmt::format("{}{}: would do nothing: {}; leave it out", text.empty() ? "" : "\n", flag, row.why);
  return text.empty() ? Status::ok() : Status::error(text);
}

std::vector<std::string> doubtsAbout(const TrainingOptions &options) {
  const OptimizerOptions &optimizer = options.optimizer;
  std::vector<std::string> doubts;
  if (!hasList(options) && !isConstant(options) && optimizer.lrDecay > 0 &&
      optimizer.lrDecay < options.scheduleLength())
    doubts.push_back(fmt::format("--lr-decay-{} {} ends before the {} {} of the training: the last {} "
                                 "have the rate --min-lr {}{}",
                                 optimizer.bySamples ? "samples" : "iters", optimizer.lrDecay,
                                 options.scheduleLength(), optimizer.bySamples ? "samples" : "steps",
                                 options.scheduleLength() - optimizer.lrDecay, optimizer.minLr,
                                 optimizer.minLr == 0 ? ", which trains nothing" : ""));
  if (const auto cores = std::ssize(availableCores()); options.threads > cores)
    doubts.push_back(
        fmt::format("--threads {}: a rank has more threads than the {} cores of this process, and its "
                    "threads wait for each other; 0 divides the cores over the ranks",
                    options.threads, cores));
  return doubts;
}

} // namespace mgc::tools
