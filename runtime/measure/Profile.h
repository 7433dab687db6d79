// Where the time of a run went, kernel by kernel, and how far it is from what the machine could do.
//
// All numbers are of one training step and one rank, means over the measured steps and all ranks; all ranks
// run at once, so a rank's share of the machine's rates is 1 / ranks of them.
#pragma once

#include "plan/Plan.h"
#include "runtime/exec/MachineRates.h"

namespace mgc {

struct ProfileRow {
  std::string kernel; // see plan::kernelOf
  plan::WorkKind kind{};
  double calls = 0, seconds = 0; // without waiting
  double waiting = 0;            // s
  double flops = 0, bytes = 0;
  double bound = 0;    // s at the rank's share of the rates
  bool isBf16 = false; // a matrix product of bf16 operands
};

// A part of the rank's time in a step. The parts are all of that time, so the seconds add up to the step.
struct ProfilePart {
  std::string name;
  double seconds = 0;
};

struct Profile {
  int64_t steps = 0, ranks = 0, threads = 0;
  MachineRates rates;
  double step = 0;   // s, mean over the measured steps
  double median = 0; // s
  double bound =
      0; // s: products of bf16 at rates.bf16Flops, others and attention at rates.flops, all other bytes once at rates.bytes
  std::vector<ProfileRow> rows; // by seconds, most first
  std::vector<ProfilePart> parts;
  double fraction() const { return bound / median; }
};

// The engine must have measured at least one step.
Profile profileOf(const Engine &engine, const MachineRates &rates);
std::string toJson(const Profile &profile); // docs/profiling.md
inline constexpr std::string_view kProfileBegins = "{\n \"steps\": ";

} // namespace mgc
