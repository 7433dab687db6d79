// See TrainingStart.h.
#include "runtime/train/TrainingStart.h"

#include "runtime/base/Problems.h"
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/random/Philox.h"
#include "runtime/train/RunOptions.h"
#include "runtime/train/RunSettings.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace mgc {

namespace fs = std::filesystem;

namespace {

constexpr const char *kRestart = "--restart-from-latest";

// Only the name of a file: data may be moved.
std::string describeData(const TrainingOptions &options, const DataSource &data) {
  std::string text = data.describe();
  if (options.data && text.starts_with(*options.data))
    text.replace(0, options.data->size(), fs::path(*options.data).filename().string());
  return text;
}

std::string describeLayout(const plan::Plan &plan) {
  std::string text;
  for (const plan::Axis &axis : plan.mesh.axes)
    text += fmt::format("{}={} ", axis.name, axis.size);
  return text + fmt::format("zero={} {}", plan.zero, nameOf(plan.dtype));
}

} // namespace

std::string TrainingStart::describe() const {
  if (checkpoint)
    return fmt::format("a checkpoint with the hash {:016x}", hashName(printRecord(record)));
  return weights ? "weights" : "none";
}

std::string TrainingStart::note(const TrainingOptions &options) const {
  const std::string older =
      newest ? fmt::format("; {} names it, the newest one in the folder is of step {}", kLatestFile, *newest) : "";
  if (continues)
    return fmt::format("{} {}: goes on after {} steps{}", by, *checkpoint, record.step, older);
  if (checkpoint)
    return fmt::format("{} {}: a new training begins with its weights{}", by, *checkpoint, older);
  return options.restartsFromLatest
             ? fmt::format("{}: no checkpoint is in {} yet; a new training begins", kRestart, *options.save)
             : "";
}

static Result<TrainingStart> startFrom(const std::string &flag, const std::string &checkpoint, bool continues) {
  TrainingStart start;
  start.by = flag;
  start.checkpoint = checkpoint;
  start.continues = continues;
  MGC_SET(start.record, readRecord(checkpoint).at(flag));
  return start;
}

Result<TrainingStart> startOfNextPart(const TrainingOptions &options, int64_t stepsDone) {
  return startFrom("--rampup-batch-size", CheckpointFolder::pathOf(*options.save, stepsDone), true);
}

// The start from a checkpoint of the folder, or the folder if it is one itself.
static Result<TrainingStart> startIn(const std::string &flag, const std::string &folder, const std::string &checkpoint,
                                     bool continues) {
  MGC_ASSIGN(start, startFrom(flag, checkpoint, continues));
  const std::map<int64_t, std::string> all = checkpointsIn(folder);
  if (!all.empty() && all.rbegin()->first > start.record.step)
    start.newest = all.rbegin()->first;
  return start;
}

Result<TrainingStart> findStart(const TrainingOptions &options) {
  if (options.restartsFromLatest) {
    MGC_ASSIGN(latest, findCheckpoint(*options.save).at(kRestart));
    if (latest)
      return startIn(kRestart, *options.save, *latest, true);
  }
  if (!options.load)
    return TrainingStart();
  MGC_ASSIGN(found, findCheckpoint(*options.load).at("--load"));
  if (found)
    return startIn("--load", *options.load, *found, !options.finetune);
  if (std::error_code ignored; !fs::exists(*options.load, ignored))
    return errorf("--load {}: does not exist; expected a checkpoint or a folder of --save, or weights of Hugging "
                  "Face, which are a .safetensors file or a folder of them; with {} instead of it a run begins "
                  "where --save has no checkpoint yet",
                  *options.load, kRestart);
  if (options.finetune)
    return errorf("--finetune: --load {} has no checkpoint, so a new training begins anyway; leave it out",
                  *options.load);
  TrainingStart start;
  start.by = "--load";
  start.weights = options.load;
  return start;
}

// A plan may say anything, and patterns of --freeze are long.
static Settings::value_type settingOf(const plan::Setting &setting) {
  return {shortened(setting.flag), shortened(setting.value)};
}

CheckpointRecord recordOf(const TrainingOptions &options, const plan::Plan &plan, const plan::BatchSizes &sizes,
                          const DataSource &data, int64_t step) {
  CheckpointRecord record;
  record.step = step;
  record.samples = sizes.samplesBefore(step);
  record.model = plan.modelType;
  record.layout = describeLayout(plan);
  record.globalBatchSize = sizes.ranges().back().size;
  record.sequenceLength = plan.sequenceLength;
  record.data = dataSettings(options);
  if (!options.hasCorpus())
    record.data.emplace_back(options.data ? "--data" : "--mock-data", describeData(options, data));
  std::ranges::copy(data.identity(), std::back_inserter(record.data));
  record.optimizer = optimizerSettings(options, step);
  for (const plan::Setting &setting : plan.settings)
    record.plan.push_back(settingOf(setting));
  record.noted = notedSettings(options);
  return record;
}

// Settings of the plan that mgrun treats so; a checkpoint of a plan without any has none to compare.
static Settings settingsOf(const plan::Plan &plan, plan::Setting::Resume resume, const CheckpointRecord &checkpoint) {
  Settings settings;
  for (const plan::Setting &setting : plan.settings)
    if (setting.resume == resume && !checkpoint.plan.empty())
      settings.push_back(settingOf(setting));
  return settings;
}

Result<std::vector<std::string>> verifyContinues(const TrainingStart &start, const TrainingOptions &options,
                                                 const plan::Plan &plan, const plan::BatchSizes &sizes,
                                                 const DataSource &data) {
  std::vector<std::string> notes;
  if (!start.continues)
    return notes;
  const CheckpointRecord here = recordOf(options, plan, sizes, data, start.record.step);
  const CheckpointRecord &there = start.record;
  Problems problems;
  for (const auto &[what, found, expected] :
       {std::tuple("global batch size", here.globalBatchSize, there.globalBatchSize),
        std::tuple("sequence length", here.sequenceLength, there.sequenceLength)})
    problems.expect(found == expected,
                    "  {}: found {} in the plan, expected {}, as in the checkpoint; a plan that has it, or --finetune, "
                    "with which a new training begins",
                    what, found, expected);
  compareSettings(here.data, there.data, "--finetune begins a new training with the weights", problems);
  if (!options.overridesOptimizer)
    compareSettings(here.optimizer, there.optimizer, "--override-opt-param-scheduler goes on with what was found",
                    problems);
  for (const std::string &change : changesOf(settingsOf(plan, plan::Setting::Resume::refused, there), there.plan))
    if (!options.ignoreConfig)
      problems.add("  {} of another plan; --ignore-config goes on with that of this plan where what the optimizer "
                   "keeps fits, --finetune begins anew with the weights",
                   change);
    else
      notes.push_back(change);
  const auto note = [&](const Settings &found, const Settings &expected) {
    std::ranges::move(changesOf(found, expected), std::back_inserter(notes));
  };
  note(settingsOf(plan, plan::Setting::Resume::noted, there), there.plan);
  note(here.noted, there.noted);
  if (options.overridesOptimizer)
    note(here.optimizer, there.optimizer);
  if (options.trainSamples)
    problems.expect(*options.trainSamples >= there.samples,
                    "  --train-samples: found {}, expected at least {}, the samples that are done",
                    *options.trainSamples, there.samples);
  else
    problems.expect(options.trainIters >= there.step,
                    "  --train-iters: found {}, expected at least {}, the steps that are done", options.trainIters,
                    there.step);
  if (problems.empty())
    return notes;
  return errorf("{} {}: this run would not go on as that of the checkpoint\n{}", start.by, *start.checkpoint,
                problems.text());
}

} // namespace mgc
