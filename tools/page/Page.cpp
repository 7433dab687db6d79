// See Page.h.
#include "tools/page/Page.h"

#include "PageTemplate.h"

#include "plan/cost/MemoryOverTime.h"
#include "plan/json/PlanJson.h"
#include "tools/page/PipelineJson.h"

using namespace mgc;
using namespace mgc::cost;
using Json = nlohmann::json;

namespace {

constexpr int64_t kMostRanksDrawn = 4096;

// The rank's coordinate along each axis.
Json placeOf(const plan::Mesh &mesh, int64_t rank) {
  Json place = Json::array();
  for (const plan::Axis &axis : mesh.axes)
    place.push_back(coordinate(mesh, rank, {axis.name}));
  return place;
}

Json ranksByStage(const plan::Mesh &mesh) {
  Json stages = Json::array();
  if (mesh.worldSize() > kMostRanksDrawn)
    return stages;
  for (int64_t stage = 0; stage < stageCount(mesh); ++stage)
    stages.push_back(Json::array());
  for (int64_t rank = 0; rank < mesh.worldSize(); ++rank)
    stages[stageOf(mesh, rank)].push_back({rank, placeOf(mesh, rank)});
  return stages;
}

Json memoryOf(const plan::StagePlan &stage, const plan::Plan &plan, const schedule::StepTimes &times) {
  Json kinds = Json::array();
  for (const MemoryCurve &curve : memoryOverTime(stage, plan.programs, times)) {
    Json changes = Json::array();
    for (const MemoryChange &change : curve.changes)
      changes.push_back({tools::nanoseconds(change.seconds), change.bytes});
    kinds.push_back({{"kind", curve.kind}, {"changes", std::move(changes)}});
  }
  return kinds;
}

// JSON for an element script, which the text "</script" would end and "<!--" change: '<' stands in strings alone, where it may be
// written by its number. Text that is not UTF-8, as names of files may be, is replaced.
std::string embedded(const Json &data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

} // namespace

OutputKind mgc::tools::pageKind() {
  return {"--html", "a page of mgc", [](const std::string &path) { return beginsWith(path, kPageBegins); }};
}

Status mgc::tools::verifyPage(const std::string &path, const std::string &folder, const plan::Plan &plan, bool force) {
  for (const std::string &file : plan::filesOf(folder, plan))
    if (isSameFile(path, file))
      return errorf("--html {}: is a file of the plan, expected another", path);
  return verifyCreatable(pageKind(), path, force);
}

Json mgc::tools::pageData(const plan::Plan &plan, const PlanFacts &facts, const Machine &machine,
                          const StepCost &step) {
  const std::vector<schedule::StepTimes> times = schedule::timesOfSteps(listsOf(plan, step.costs));
  Json memory = Json::array();
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    memory.push_back(memoryOf(plan.stages[stage], plan, times[stage]));
  return {{"facts", factsJson(plan, facts, machine, step)},
          {"ranks", ranksByStage(plan.mesh)},
          {"pipeline", pipelineJson(plan, machine, times)},
          {"memory", std::move(memory)}};
}

static std::string filled(std::string page, const Json &data) {
  constexpr std::string_view kData = "{\"data\": \"of the page\"}"; // as the templates have it
  return page.replace(page.find(kData), kData.size(), embedded(data));
}

std::string mgc::tools::pageText(const Json &data) { return filled(kPageTemplate, data); }
std::string mgc::tools::comparisonPage(const Json &data) { return filled(kCompareTemplate, data); }
std::string mgc::tools::searchPage(const Json &data) { return filled(kAutoTemplate, data); }
