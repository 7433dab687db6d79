// The data that a run of mgrun adds to the page of its plan (tools/page/Page.h), all of it also in --log, --trace
// and --profile-json.
//   done      number of steps of this run, from step `first` on; end: why they are not all, or empty
//   steps     lines of --log, those before `first` too (tools/watch/RunCurves.h), each `stride`-th and the last; lacks: why those
//             before are not there, or empty
//   validation [[step, validation loss after it], ..]
//   tokens_per_step  tokens that went in, counted in the loss or not
//   trace     of the traced step of median length in rank 0: its number `step`, and of each rank shown its stage and
//             boxes: [chunk, microbatch, begin ns, end ns, instructions: [program, index in it, ns, of which waiting ns]]
//             instructions of one place in a program are summed over the layers that the box runs; a rank with very many boxes has
//             them without instructions, or none. `world`: ranks of the plan. `machines`: number of those whose ranks are shown; their
//             clocks are set equal where the step begins
//   profile   as --profile-json, mean over the ranks shown; null: interrupted before the second step
// Where ranks are processes, rank 0 gathers it from all of a small run, and from equally many ranks of each stage of a large one.
#pragma once

#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/measure/Profile.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

struct MeasuredRun {
  nlohmann::json trace, profile; // see above; null: there is none
};

// In a process that has all ranks.
MeasuredRun measuredHere(const plan::Plan &plan, const Recording &recording, const std::optional<Profile> &profile);

// Where each process has one: all call it, and rank 0 gets what all have measured, the others nothing.
Result<MeasuredRun> gatherMeasured(Processes &processes, const plan::Plan &plan, const Recording &recording,
                                   const std::optional<Profile> &profile);

} // namespace mgc::tools
