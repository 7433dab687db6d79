// The report of a search of layouts, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgc::tools {

// A layout that was searched and compiled up to its plan. All but `searched..` are of the plan.
struct ProvedLayout {
  std::string layout;  // the options that were chosen, in short: "tp 2, dp 4, mbs 2, zero 1, 1f1b"
  std::string command; // the line that compiles it
  double seconds = 0, tokensPerSecond = 0, utilisation = 0;
  int64_t bytes = 0, hostBytes = 0; // the rank that takes most has so many
  double searchedSeconds = 0;
  int64_t searchedBytes = 0;
  std::string problem; // the search and the plan differ; empty: they do not
};

// How the plan differs from what the search said of it: by more than 1 % in seconds, or by bytes above `memory` and `hostMemory`; empty:
// it does not.
std::string differenceIn(const ProvedLayout &layout, int64_t memory, int64_t hostMemory);

struct PartDifference {
  std::string part; // as mgc explain names it: "collectives of tensor parallelism"
  double seconds = 0;
};

// The best layout with another value of an option, compiled up to its plan.
struct OtherValue {
  std::string flag, value;
  std::string layout; // empty: there is none
  double seconds = 0;
  int64_t bytes = 0;
  std::vector<PartDifference> differences; // parts of the step that differ most from those of the best layout
  std::string refusal;
};

// The fastest layouts within less and less memory.
struct ParetoRows {
  std::vector<ProvedLayout> layouts;
  int64_t tooLittle = 0; // bytes into which none fits
  // The next takes less memory than all others. Those that are no faster go, if it has no problem.
  void add(ProvedLayout next);
};

// Seconds of the layouts on a machine that differs a little from the one that they were searched for.
struct ChangedMachine {
  std::string change;                 // "links at 0.8 of their bandwidth"
  std::vector<double> seconds;        // by layout that has a plan
  std::vector<int64_t> order() const; // their numbers, from 1, the fastest first
};

// A layout that was asked for beside those that were searched.
struct AskedLayout {
  std::string asked;                       // "tp=4,pp=8"
  std::optional<ProvedLayout> layout;      // none: no layout has these options and fits
  std::vector<PartDifference> differences; // from the best layout
  std::string refusal;
};

// Where nothing fits.
struct NearestLayout {
  std::optional<ProvedLayout> layout; // needs least memory on these devices; none: not looked for
  int64_t devices = 0;                // with so many there is a layout that fits, `onThese`; 0: none is known
  std::string onThese;
};

struct AutoCounts {
  int64_t enumerated = 0, refused = 0, tooLarge = 0, tooSlow = 0, estimated = 0, cuts = 0, unfit = 0, shapes = 0,
          compiled = 0;
  double seconds = 0; // the search took so long
};

// The layouts of one number of devices.
struct AutoSize {
  int64_t devices = 1;
  std::vector<ProvedLayout> layouts;    // the fastest first
  std::string refusal;                  // why there is none
  std::optional<NearestLayout> nearest; // to what fits, where nothing does
  AutoCounts counts;
  // Answers to the other flags of the search.
  std::optional<std::vector<OtherValue>> others;
  std::vector<AskedLayout> asked;
  std::optional<ParetoRows> pareto;
  std::optional<std::vector<ChangedMachine>> changes;

  std::vector<ProvedLayout> all() const; // all layouts that were proved
};

struct AutoReport {
  std::string model, machine, target, dtype;
  int64_t memory = 0; // bytes of a rank, the budget
  int64_t globalBatchSize = 1, sequenceLength = 1;
  int64_t trainSamples = 0; // 0: not asked for
  std::vector<AutoSize> sizes;
  std::optional<double> imbalance; // cost::Cluster::imbalance; none: the model has no experts

  double daysOf(double secondsOfStep) const;
};

std::string textOf(const AutoReport &report);
std::string jsonOf(const AutoReport &report);

} // namespace mgc::tools
