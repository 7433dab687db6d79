// See RunPage.h.
#include "tools/RunPage.h"

#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/File.h"
#include "runtime/train/LossLog.h"
#include "tools/MeasuredRun.h"
#include "tools/page/Page.h"

namespace mgc::tools {

namespace {

using Json = nlohmann::json;

// More steps than a curve has columns.
constexpr size_t kMostSteps = 4096;

Json stepsOf(const std::vector<std::string> &lines) {
  Json steps = Json::array();
  for (const std::string &line : lines)
    steps.push_back(Json::parse(line));
  return steps;
}

} // namespace

// Reads the plan as it stands in its folder: the engine's has its parameters one by one.
Status RunPage::readPlan(const std::string &folder) {
  MGC_ASSIGN(plan, plan::readPlan(folder));
  MGC_TRY(plan::provePlan(plan).at(folder));
  const cost::Machine machine = cost::machineOf(plan);
  page_ = pageData(plan, cost::factsOf(plan), machine, cost::predict(plan, machine));
  return Status::ok();
}

void RunPage::began(const TrainingOptions &options, const Engine &engine, const std::string &data) {
  if (options.page) {
    path_ = options.page->path; // this rank's, where ranks are processes
    data_ = data;
    read_ = readPlan(options.plan);
  }
  screen_.began(options, engine, data);
}

// When there are too many, every second goes. Steps are counted from the run's first, which stays.
void RunPage::stepped(const TrainingStep &step) {
  if (!first_)
    first_ = step.step;
  if (!path_.empty() && (step.step - *first_) % stride_ == 0) {
    if (lines_.size() == kMostSteps) {
      for (size_t i = 1; i < kMostSteps / 2; ++i)
        lines_[i] = std::move(lines_[2 * i]);
      lines_.resize(kMostSteps / 2);
      stride_ *= 2;
    }
    if ((step.step - *first_) % stride_ == 0)
      lines_.push_back(lineOf(step));
  }
  screen_.stepped(step);
}

Status RunPage::ended(const TrainingSummary &summary, const Engine &engine) {
  if (path_.empty())
    return Status::ok();
  MGC_TRY(std::move(read_).at("--html"));
  const plan::Plan &plan = engine.plan();
  page_["run"] = {{"data", data_},
                  {"done", summary.steps},
                  {"end", summary.interrupted  ? "interrupted"
                          : summary.endedEarly ? "ended early, as its flags say"
                                               : ""},
                  {"stride", stride_},
                  {"tokens_per_step", plan.globalBatchSize * plan.sequenceLength},
                  {"steps", stepsOf(lines_)},
                  {"trace", measuredStep(plan, engine.recording())},
                  {"profile", summary.profile ? Json::parse(toJson(*summary.profile)) : Json()}};
  return writeFileAtomically(path_, pageText(page_));
}

} // namespace mgc::tools
