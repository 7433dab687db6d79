// See RunSaves.h.
#include "runtime/train/RunSaves.h"

#include "plan/OwnModelType.h"
#include "runtime/base/File.h"
#include "runtime/base/FolderLock.h"
#include "runtime/base/Json.h"
#include "runtime/base/Problems.h"
#include "runtime/checkpoint/SaveTarget.h"
#include "runtime/checkpoint/Weights.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace mgc {

// Whether the checkpoint is one of the folder's.
static bool isFolderOf(const std::string &checkpoint, const std::string &folder) {
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::absolute(checkpoint, ignored).lexically_normal();
  const std::filesystem::path unslashed = path.has_filename() ? path : path.parent_path();
  return std::filesystem::equivalent(unslashed.parent_path(), folder, ignored);
}

// The folder and those above it that are not there, from the inside to the outside.
static std::vector<std::filesystem::path> missingFolders(const std::string &folder) {
  std::vector<std::filesystem::path> missing;
  std::error_code ignored;
  for (auto path = std::filesystem::absolute(folder, ignored); !path.empty() && !std::filesystem::exists(path, ignored);
       path = path.parent_path())
    missing.push_back(path);
  return missing;
}

void RunSaves::removeEmpty(const std::vector<std::filesystem::path> &folders) {
  for (const std::filesystem::path &folder : folders)
    ::rmdir(folder.c_str());
}

Status RunSaves::prepare(const plan::Plan &plan, int64_t changes) {
  made_ = MadeFolders(missingFolders(*options_.save));
  MGC_TRY(verifySavable(*options_.save).at("--save"));
  SaveTarget target = {*options_.save, options_.saveType,           options_.savesBetween(),
                       options_.force, start_.weights.value_or(""), nullptr};
  if (options_.verifyModel)
    target.verifyModel = [this](const std::string &planConfig, const std::string &folder) {
      return options_.verifyModel(planConfig, folder, false);
    };
  if (!options_.savesWeightsAlone)
    target.checkpoints = checkpointsAtOnce(changes);
  MGC_SET(lock_, lockFolder(*options_.save, "another run saves into this folder, expected another").at("--save"));
  MGC_ASSIGN(notes, prepareSave(plan, target).at("--save"));
  if (!options_.savesWeightsAlone)
    MGC_TRY(openFolder(notes));
  std::string kept;
  runFile_ = RunFile(*options_.save, options_.runFile, options_.force, kept);
  if (!kept.empty())
    notes.push_back(kept);
  for (const std::string &note : notes)
    observer_.noted(note);
  if (changesFamily(plan.modelConfig))
    observer_.noted(
        fmt::format("--save: no class of transformers computes this architecture (\"mgc\": {{\"model\": ..}} of its "
                    "config.json): the weights are saved with model_type {}, which mgc and mgrun read and transformers "
                    "refuses",
                    plan::kOwnModelType));
  return options_.savesTokenizer ? readAssets() : Status::ok();
}

// The assets are those of the tokenizer that the data were read with, else of what was loaded; with the chat template of the
// conversations.
Status RunSaves::readAssets() {
  std::vector<std::string> folders;
  for (const std::string &path : {options_.tokenizer.model, start_.path().value_or("")})
    if (!path.empty())
      folders.push_back(path);
  std::vector<std::string> notes;
  MGC_SET(assets_, TokenizerAssets::read(folders, notes));
  for (const std::string &note : notes)
    observer_.noted(note);
  if (assets_.isEmpty() || options_.chats.templateFile.empty())
    return Status::ok();
  MGC_ASSIGN(text, readFile(options_.chats.templateFile, int64_t(1) << 30));
  if (const Result<nlohmann::json> json = parseJson(text); !json.isOk() || !json->is_object()) // else begin() knows it
    assets_.setChatTemplate(std::move(text));
  return Status::ok();
}

Status RunSaves::openFolder(std::vector<std::string> &notes) {
  const bool isContinued = start_.continues && isFolderOf(*start_.checkpoint, *options_.save);
  Continued continued = {isContinued ? std::optional(start_.step()) : std::nullopt, options_.force, options_.saveBest};
  if (start_.record.best)
    continued.best = start_.record.best->step;
  MGC_SET(folder_, CheckpointFolder::open(*options_.save, options_.saveRetain, continued, notes).at("--save"));
  return Status::ok();
}

// The most checkpoints that the run's saves add: the newest is whole before the oldest goes.
int64_t RunSaves::checkpointsAtOnce(int64_t changes) const {
  const int64_t interval = options_.saveInterval;
  const int64_t between = interval > 0 ? (options_.trainIters - 1) / interval - start_.step() / interval : 0;
  const int64_t best = options_.saveBest ? options_.evaluations() : 0;
  const int64_t saves = changes + std::max<int64_t>(between, 0) + best + 1;
  const int64_t stay = options_.saveRetain + (options_.saveBest ? 1 : 0);
  const auto there = std::min<int64_t>(std::ssize(checkpointsIn(*options_.save)), stay);
  return options_.saveRetain == 0 ? saves : std::min(saves - 1, stay - there) + 1;
}

Status RunSaves::begin(Engine &engine, Processes *processes, const plan::BatchSizes &sizes, const StepChecks &checks,
                       const DataSource &data) {
  engine_ = &engine;
  processes_ = processes;
  sizes_ = &sizes;
  checks_ = &checks;
  data_ = &data;
  if (!assets_.isEmpty() && !data.jinja().empty())
    assets_.setChatTemplate(data.jinja());
  if (options_.save && !options_.savesWeightsAlone)
    saver_ = std::make_unique<CheckpointSaver>(engine, processes, *options_.save, std::move(folder_));
  return options_.copiesState() ? saver_->reserveCopies() : Status::ok();
}

bool RunSaves::isDue(int64_t stepsDone) const {
  const bool isInterval = options_.saveInterval > 0 && stepsDone % options_.saveInterval == 0;
  return stepsDone < options_.trainIters && (isInterval || isBest(stepsDone));
}

// State first: it is all that a training needs to go on.
Status RunSaves::save(int64_t stepsDone, const TrainedSoFar &skipped, bool isLast) {
  if (!options_.save)
    return Status::ok();
  observer_.started(fmt::format("saving after {} steps", stepsDone));
  const Status state = saver_ ? saveState(stepsDone, skipped, isLast) : Status::ok();
  const Status weights = writesWeights(isLast) ? writeWeights(stepsDone) : Status::ok();
  const Status runFile = placed(runFile_.write(), stepsDone);
  return allOf({state, weights, runFile});
}

Status RunSaves::placed(Status status, int64_t stepsDone) const {
  return processes_
             ? std::move(status).at(fmt::format("rank {}, saving after {} steps", options_.launch.rank, stepsDone))
             : status;
}

Status RunSaves::verifyWeights(int64_t stepsDone) {
  if (!options_.save)
    return Status::ok();
  MGC_TRY(engine_->download(Part::weights));
  return placed(mgc::verifyWeights(engine_->plan(), engine_->arenas(), engine_->hosts()).at(*options_.save), stepsDone);
}

// The weights are those that verifyWeights has taken.
Status RunSaves::writeWeights(int64_t stepsDone) {
  SaveOptions save;
  save.type = options_.saveType;
  save.communicator = engine_->hosts();
  save.areVerified = true;
  MGC_TRY(placed(saveWeights(engine_->plan(), engine_->arenas(), *options_.save, save), stepsDone));
  return placed(assets_.write(*options_.save), stepsDone);
}

Status RunSaves::saveState(int64_t stepsDone, const TrainedSoFar &skipped, bool isLast) {
  note(saver_->finish());
  CheckpointRecord record = recordOf(options_, engine_->plan(), *sizes_, *data_, stepsDone);
  checks_->keepIn(record);
  evaluations_.keepIn(record);
  record.skipped = skipped.steps, record.skippedSamples = skipped.samples;
  const Status saved = saver_->save(std::move(record), options_.asyncSave && !isLast);
  if (isLast)
    return saved;
  note(saved);
  return Status::ok();
}

Status RunSaves::saveAtTheEnd(int64_t stepsDone, const TrainedSoFar &skipped) {
  if (saver_)
    note(saver_->finish());
  MGC_TRY(verifyWeights(stepsDone));
  MGC_TRY(save(stepsDone, skipped, true));
  amend(stepsDone); // one that was there before the last evaluations
  return Status::ok();
}

void RunSaves::amend(int64_t stepsDone) {
  const auto keep = [this](CheckpointRecord &record) { evaluations_.keepIn(record); };
  if (const Status amended = saver_ ? saver_->amend(stepsDone, keep) : Status::ok(); !amended.isOk())
    observer_.noted(
        fmt::format("{}; the next run from there does not know which evaluations are done", amended.message()));
}

Status RunSaves::saveForNextPart(int64_t stepsDone, const TrainedSoFar &skipped) {
  return saveState(stepsDone, skipped, true);
}

Status RunSaves::saveBetween(int64_t stepsDone, const TrainedSoFar &skipped) {
  if (writesWeights(false))
    MGC_TRY(verifyWeights(stepsDone));
  Status saved = save(stepsDone, skipped, false);
  if (saved.isOk() || processes_)
    return saved;
  observer_.noted(fmt::format("after {} steps: {}; the training goes on", stepsDone, saved.message()));
  return Status::ok();
}

void RunSaves::poll() {
  if (saver_ && saver_->hasEnded())
    note(saver_->finish());
}

void RunSaves::note(const Status &saved) {
  if (!saved.isOk())
    observer_.noted(fmt::format("no checkpoint was saved: {}; the training goes on", saved.message()));
}

} // namespace mgc
