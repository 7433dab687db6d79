// The parts of verifyPlan, and what they share. Each part takes a plan whose mesh is sound and adds
// violations; it leaves out checks that an earlier violation makes meaningless.
#pragma once

#include "plan/Plan.h"
#include "plan/Violations.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Checked.h"

#include <algorithm>
#include <span>

namespace mgc::plan {

struct Checks {
  const Plan &plan;
  Violations &violations;
};

void verifyNumbers(Checks &checks);    // VerifyNumbers.cpp: the plan's own numbers
void verifyParameters(Checks &checks); // VerifyParameters.cpp: parameters and buckets
void verifyPrograms(Checks &checks);   // VerifyPrograms.cpp: programs and their instructions
void verifyStages(Checks &checks);     // VerifyStages.cpp: regions, inputs, chunks, scalars of each stage
void verifySchedules(Checks &checks);  // VerifySchedules.cpp: the steps of each stage and how they match

inline bool inRange(int64_t index, size_t size) { return index >= 0 && static_cast<size_t>(index) < size; }

// A range of bytes or elements, and who has it.
struct Interval {
  int64_t begin = 0, end = 0;
  std::string owner;
};
// Adds a violation for neighbours (by position) that overlap.
void verifyDisjoint(Checks &checks, const Place &place, std::vector<Interval> intervals);

// Adds a violation unless `axes` are in the mesh, each once; returns whether they are.
bool verifyAxesAt(Checks &checks, const Place &place, const Axes &axes);

// Every list of axes is sound and no primitive axis is in two of them.
bool verifyAxesApart(Checks &checks, const Place &place, std::initializer_list<const Axes *> lists);

// Every entry is a stage and comes once.
bool verifyStageList(Checks &checks, const Place &place, const std::vector<int64_t> &stages);

// The part of a dimension of `size` that a rank has: size / groupSize(axes). Adds a violation and gives
// nothing unless size is positive, the axes are sound and divide it.
Checked localSize(Checks &checks, const Place &place, int64_t size, const Axes &axes);

} // namespace mgc::plan
