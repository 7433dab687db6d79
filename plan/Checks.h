// A plan under proof with the list of what is wrong with it, and checks that kinds of instructions and the parts of verifyPlan
// share. In: a plan whose mesh is sound.
#pragma once

#include "plan/Plan.h"
#include "plan/Violations.h"

namespace mgc::plan {

struct Checks {
  const Plan &plan;
  Violations &violations;
};

inline bool inRange(int64_t index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

// Adds a violation unless `axes` are in the mesh, each once; returns whether they are.
bool verifyAxesAt(Checks &checks, const Place &place, const Axes &axes);

// Every entry is a stage and comes once.
bool verifyStageList(Checks &checks, const Place &place, const std::vector<int64_t> &stages);

} // namespace mgc::plan
