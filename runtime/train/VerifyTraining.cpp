// See VerifyTraining.h.
#include "runtime/train/VerifyTraining.h"

#include "plan/Optimizers.h"
#include "plan/json/PlanJson.h"
#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Problems.h"
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/io/Safetensors.h"
#include "runtime/measure/Profile.h"
#include "runtime/measure/Trace.h"
#include "runtime/train/RunFile.h"
#include "runtime/train/RunOptions.h"

#include <algorithm>

namespace mgc {

Status verifyIterations(const TrainingOptions &options, int64_t first) {
  const int64_t steps = options.trainIters - first;
  if (options.trainIters < 0)
    return errorf("--train-iters = {}: must not be negative", options.trainIters);
  if (options.isProfiled() && steps < 2)
    return errorf("--train-iters = {}: {} leaves out the first step, expected at least {}", options.trainIters,
                  options.page ? options.page->kind.flag : "a profile", first + 2);
  if (options.trace && steps < 1)
    return errorf("--train-iters = {}: there is no step to trace, expected at least {}", options.trainIters, first + 1);
  return Status::ok();
}

Status verifySamples(const TrainingOptions &options, const plan::BatchSizes &sizes, const plan::Plan *evaluation) {
  const int64_t most = sizes.stepsWithin(plan::kMostSamples);
  if (options.trainSamples && *options.trainSamples > plan::kMostSamples)
    return errorf("--train-samples = {}: expected at most {}", *options.trainSamples, plan::kMostSamples);
  if (options.trainIters > most)
    return errorf("--train-iters = {}: is more than {} samples in batches of {}; expected at most {}",
                  options.trainIters, plan::kMostSamples, sizes.ranges().back().size, most);
  if (!evaluation)
    return Status::ok();
  const int64_t evaluations = options.evaluations();
  const int64_t mostBatches = plan::kMostSamples / evaluation->globalBatchSize / evaluations;
  if (options.evalIters > mostBatches)
    return errorf("--eval-iters = {}: {} evaluations of batches of {} are more than {} samples; expected at most {}{}",
                  options.evalIters, evaluations, evaluation->globalBatchSize, plan::kMostSamples,
                  std::max<int64_t>(mostBatches, 1),
                  mostBatches > 0 ? "" : ", and fewer evaluations: a larger --eval-interval");
  return Status::ok();
}

// A flag that would have no effect is a mistake.
Status verifyPlanFlags(const TrainingOptions &options, const plan::Plan &plan) {
  const bool onCpu = plan.target == plan::Target::cpu;
  const auto isFor = [&](PlanKind kind) {
    return kind == PlanKind::device ? !onCpu : onCpu && (kind == PlanKind::cpu || plan.dtype == plan::DType::bf16);
  };
  const TrainingOptions standard;
  Problems problems;
  for (const RunOption &option : runOptions()) {
    if (const auto optimizer = option.details.optimizer; optimizer && *optimizer != plan.optimizer)
      problems.expect(option.valueIn(options) == option.valueIn(standard),
                      "{}: means nothing for a plan whose optimizer is {}; leave it out", option.flag(),
                      nameOf(plan.optimizer));
    if (const PlanKind kind = option.details.plans; kind != PlanKind::any && !isFor(kind))
      problems.expect(option.textIn(options) == option.textIn(standard),
                      "{}: means nothing for a plan {}; leave it out", option.flag(),
                      kind == PlanKind::bf16Cpu ? fmt::format("of {} for {}", nameOf(plan.dtype), nameOf(plan.target))
                                                : fmt::format("whose target is {}", nameOf(plan.target)));
  }
  return problems.status();
}

Status verifyModelFlags(const TrainingOptions &options, const plan::Plan &plan) {
  const auto has = [&](bool (plan::Bucket::*kind)() const) {
    return std::ranges::any_of(
        plan.stages, [kind](const plan::StagePlan &stage) { return std::ranges::any_of(stage.buckets, kind); });
  };
  if (options.optimizer.routerBiasRate != 0 && !has(&plan::Bucket::isMovedByLoad))
    return errorf("--moe-router-bias-update-rate {}: the {} model of the plan has no bias of the routers' choice; "
                  "leave it out",
                  options.optimizer.routerBiasRate, plan.modelType);
  if (options.logsLoads && !has(&plan::Bucket::receivesLoad))
    return errorf("--moe-per-layer-logging: the plan of the {} model does not count the load of experts; "
                  "expected one of a model with experts that mgc compile --moe-per-layer-logging has made",
                  plan.modelType);
  if (options.logsLoads && !options.log && !options.tensorboard && options.launch.rank == 0)
    return errorf("--moe-per-layer-logging: there is no log for it; expected --log FILE or --tensorboard-dir DIR too");
  if (options.logsNormsByLayer && !options.log && !options.tensorboard && options.launch.rank == 0)
    return errorf("--log-norms-by-layer: there is no log for it; expected --log FILE or --tensorboard-dir DIR too");
  return Status::ok();
}

namespace {

using NamedFiles = std::vector<NamedFile>;

void add(NamedFiles &files, std::string_view flag, const std::optional<std::string> &path) {
  if (path)
    files.push_back({std::string(flag), *path});
}

void addCheckpoint(NamedFiles &files, std::string_view flag, const std::optional<std::string> &folder) {
  if (folder)
    for (const char *name : {"config.json", "model.safetensors", "model.safetensors.index.json",
                             CheckpointRecord::kFile, kLatestFile, kRunFile})
      files.push_back({std::string(flag), std::filesystem::path(*folder) / name});
}

// The files that no output may replace; those of --save too, which is written in addition to the outputs.
NamedFiles keptFiles(const TrainingOptions &options, const plan::Plan &plan) {
  NamedFiles files = options.inputs;
  add(files, "--data", options.data);
  add(files, "--valid-data", options.validData);
  for (const std::string &path : {options.tokenizer.model, options.tokenizer.vocabulary, options.tokenizer.merges})
    if (!path.empty())
      files.push_back({"--tokenizer-model", path});
  if (!options.chats.templateFile.empty())
    files.push_back({"--chat-template", options.chats.templateFile});
  for (const std::string &prefix : options.corpus.files.prefixes())
    for (const char *ending : {".bin", ".idx"})
      files.push_back({"--data-path", prefix + ending});
  add(files, "--config", options.typed.config);
  add(files, "--load", options.load);
  add(files, "--tune-cache", options.tuneCache);
  addCheckpoint(files, "--load", options.load);
  addCheckpoint(files, "--save", options.save);
  for (const std::string &path : plan::filesOf(options.plan, plan))
    add(files, "the plan", path);
  forEachEntry(options.plan, [&](const auto &folder) {
    const std::string name = folder.path().filename().string();
    if (name == plan::kEvaluationFolder || name.starts_with(plan::batchFolder("")))
      forEachEntry(folder.path().string(), [&](const auto &file) { add(files, "the plan", file.path().string()); });
  });
  return files;
}

NamedFiles outputsOf(const TrainingOptions &options) {
  NamedFiles files;
  add(files, "--log", options.log);
  add(files, "--save-gradients", options.saveGradients);
  add(files, "--trace", options.trace);
  add(files, "--profile-json", options.profileJson);
  if (options.page && options.launch.rank == 0)
    add(files, options.page->kind.flag, options.page->path);
  return files;
}

// Two outputs may go to one device.
bool areOneFile(const NamedFile &a, const NamedFile &b) {
  return isSameFile(a.path, b.path) && (std::filesystem::is_regular_file(a.path) || !std::filesystem::exists(a.path));
}

// A run must not write a file that it reads, nor two of its outputs to one file. Only the checkpoint may be replaced
// by its successor.
Status verifyApart(const TrainingOptions &options, const plan::Plan &plan) {
  const auto refuse = [](const NamedFile &output, const NamedFile &other) {
    return errorf("{} {}: is a file of {}, expected another", output.flag, output.path.string(), other.flag);
  };
  const NamedFiles kept = keptFiles(options, plan), outputs = outputsOf(options);
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    for (const NamedFile &file : kept)
      if (isSameFile(output->path, file.path))
        return refuse(*output, file);
    for (auto before = outputs.begin(); before != output; ++before)
      if (areOneFile(*output, *before))
        return refuse(*output, *before);
  }
  return Status::ok();
}

const OutputKind kGradients = {"--save-gradients", "gradients", [](const std::string &path) {
                                 const Result<Checkpoint> file = Checkpoint::open(path);
                                 return file.isOk() && file->holdsGradients();
                               }};

OutputKind kindThatBegins(const char *flag, const char *name, std::string_view beginning) {
  return {flag, name, [beginning](const std::string &path) { return beginsWith(path, beginning); }};
}

Status verifyCreatable(const OutputKind &kind, const std::optional<std::string> &path, bool force) {
  return path ? mgc::verifyCreatable(kind, *path, force) : Status::ok();
}

// It is written as the training goes, so a device will do; a pipe would hang the run until someone reads it.
Status verifyLoggable(const std::optional<std::string> &path) {
  std::error_code ignored;
  if (!path || !std::filesystem::is_fifo(*path, ignored))
    return Status::ok();
  return errorf("--log: {}: is a pipe, expected a regular file, a device or a new name", *path);
}

// A config.json next to weights that it does not describe would be believed.
Status verifyConfigOfSave(const std::string &folder, const plan::Plan &plan) {
  const std::filesystem::path config = std::filesystem::path(folder) / "config.json";
  std::error_code ignored;
  if (!plan.modelConfig.empty() || !std::filesystem::exists(config, ignored))
    return Status::ok();
  return errorf("--save: {}: describes another program than the plan's, which was edited and has no config.json; "
                "expected a folder without one",
                config.string());
}

} // namespace

// An output that cannot be written at the end must be found before the training, not after it.
Status verifyOutputs(const TrainingOptions &options, const plan::Plan &plan) {
  const bool isWriter = options.launch.rank == 0;
  MGC_TRY(verifyApart(options, plan));
  MGC_TRY(verifyLoggable(options.log));
  if (options.save && isWriter)
    MGC_TRY(verifyConfigOfSave(*options.save, plan));
  if (isWriter)
    MGC_TRY(verifyCreatable(kGradients, options.saveGradients, options.force));
  MGC_TRY(verifyCreatable(kindThatBegins("--trace", "a trace", kTraceBegins), options.trace, options.force));
  MGC_TRY(verifyCreatable(kindThatBegins("--profile-json", "a profile", kProfileBegins), options.profileJson,
                          options.force));
  return options.page && isWriter ? mgc::verifyCreatable(options.page->kind, options.page->path, options.force)
                                  : Status::ok();
}

} // namespace mgc
