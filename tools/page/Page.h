// The page of a plan: one HTML file that needs nothing else, with the facts of `mgc explain --json`, the predicted step as a
// picture and, where mgrun adds it, a measured run. How it looks and what it does stand in tools/page/parts.
#pragma once

#include "runtime/base/OutputFile.h"
#include "tools/page/FactsJson.h"

namespace mgc::tools {

inline constexpr std::string_view kPageBegins = "<!doctype html>\n<!-- A page of mgc";

// For the flag --html.
OutputKind pageKind();

// Refuses a place that cannot be written, a file of the plan, and unless `force` a file that is no page.
Status verifyPage(const std::string &path, const std::string &folder, const plan::Plan &plan, bool force);

// The data of the page, by its sections:
//   facts      factsJson
//   ranks      of each stage: [rank, [its coordinate along each axis, ..]]; none where the mesh is too large to draw each rank
//   pipeline   pipelineJson
//   memory     of each stage, by kind: [[ns, bytes held from then on], ..]
//   run        of mgrun: see MeasuredRun.h
nlohmann::json pageData(const plan::Plan &plan, const cost::PlanFacts &facts, const cost::Machine &machine,
                        const cost::StepCost &step);
std::string pageText(const nlohmann::json &data);
// The page of mgc compare, of the data of tools/compare/Comparison.h.
std::string comparisonPage(const nlohmann::json &data);
// The page of a search of layouts, of what mgc compile --auto --json prints.
std::string searchPage(const nlohmann::json &data);

} // namespace mgc::tools
