// Several runs beside each other.
//   in:  their logs
//   out: a text with the last and the least losses, and the differences at equal steps; or the data of a page with their curves
#pragma once

#include "tools/compare/RunLog.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

// A fact of each run, as text: "-" where a run lacks it.
struct ComparedFact {
  std::string name;
  std::vector<std::string> ofRuns;
};

struct Comparison {
  std::vector<RunLog> runs;
  std::vector<ComparedFact> facts;
  // Some steps that all runs have, the last of them too: the first run's loss, and by how much the others' are greater.
  std::vector<ComparedFact> differences;
  std::string agreement; // "3 of 100 equal steps have the same loss; .."; empty: there is one run
};

Comparison compareRuns(std::vector<RunLog> runs);
std::string textOf(const Comparison &comparison);
// For tools/page/parts/compare.js.
nlohmann::json comparisonData(const Comparison &comparison);

} // namespace mgc::tools
