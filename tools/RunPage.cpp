// See RunPage.h.
#include "tools/RunPage.h"

#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/File.h"
#include "runtime/train/EvaluationProgress.h"
#include "runtime/train/LossLog.h"
#include "tools/MeasuredRun.h"
#include "tools/page/Page.h"

namespace mgc::tools {

using Json = nlohmann::json;

// Reads the plan as it stands in its folder: the engine's has its parameters one by one.
Status RunPage::readPlan(const std::string &folder) {
  MGC_ASSIGN(plan, plan::readPlan(folder));
  MGC_TRY(plan::provePlan(plan).at(folder));
  const cost::Machine machine = cost::machineOf(plan);
  page_ = pageData(plan, cost::factsOf(plan), machine, cost::predict(plan, machine));
  return Status::ok();
}

void RunPage::continued(int64_t step) {
  continuedAt_ = step;
  screen_.continued(step);
}

// A page begins with the first of a run's parts; the later ones go on with its curves.
void RunPage::began(const TrainingOptions &options, const Engine &engine, const std::string &data) {
  isMeasured_ = options.page.has_value();
  if (isMeasured_ && options.launch.rank == 0) {
    if (path_.empty() && options.log)
      if (const Status read = curves_.readLog(*options.log, continuedAt_); !read.isOk())
        lacks_ = read.message();
    path_ = options.page->path;
    data_ = data;
    read_ = readPlan(options.plan);
  }
  screen_.began(options, engine, data);
}

void RunPage::stepped(const TrainingStep &step) {
  if (!first_)
    first_ = step.step;
  ++done_;
  if (!path_.empty())
    curves_.addStep(step.step, lineOf(step));
  screen_.stepped(step);
}

void RunPage::evaluated(const EvaluationResult &evaluation) {
  if (!path_.empty() && evaluation.what == nameOf(Split::valid))
    curves_.addValidation(evaluation.step, evaluation.loss);
  screen_.evaluated(evaluation);
}

// Where the others have gone before all were done, what this process has measured is shown alone.
Status RunPage::ended(const TrainingSummary &summary, const Engine &engine, Processes *others) {
  if (!isMeasured_)
    return Status::ok();
  const plan::Plan &plan = engine.plan();
  Result<MeasuredRun> measured = others ? gatherMeasured(*others, plan, engine.recording(), summary.profile)
                                        : measuredHere(plan, engine.recording(), summary.profile);
  if (path_.empty())
    return Status::ok();
  if (!measured.isOk() && lacks_.empty())
    lacks_ = fmt::format("of other processes nothing is shown: {}", measured.status().message());
  if (!measured.isOk())
    measured = measuredHere(plan, engine.recording(), summary.profile);
  MGC_TRY(std::move(read_).at("--html"));
  page_["run"] = {{"data", data_},
                  {"first", first_ ? Json(*first_) : Json()},
                  {"done", done_},
                  {"lacks", lacks_},
                  {"end", summary.interrupted  ? "interrupted"
                          : summary.endedEarly ? "ended early, as its flags say"
                                               : ""},
                  {"stride", curves_.stride()},
                  {"tokens_per_step", plan.globalBatchSize * plan.sequenceLength},
                  {"steps", curves_.steps()},
                  {"validation", curves_.validation()},
                  {"trace", measured->trace},
                  {"profile", measured->profile}};
  return writeFileAtomically(path_, pageText(page_));
}

} // namespace mgc::tools
