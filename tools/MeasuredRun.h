// The data that a run of mgrun adds to the page of its plan (tools/page/Page.h), all of it also in --log, --trace
// and --profile-json.
//   done      number of steps of this run, from step `first` on; end: why they are not all, or empty
//   steps     lines of --log, those before `first` too (tools/watch/RunCurves.h), each `stride`-th and the last; lacks: why those
//             before are not there, or empty
//   validation [[step, validation loss after it], ..]
//   tokens_per_step  tokens that went in, counted in the loss or not
//   trace     of the traced step of median length: its number and, of each rank in this process, stage and
//             boxes: [chunk, microbatch, begin ns, end ns, instructions: [program, index in it, ns, of which waiting ns]]
//             instructions of one place in a program are summed over the layers that the box runs
//   profile   as --profile-json; null: interrupted before the second step
#pragma once

#include "runtime/exec/Engine.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

// `trace` above: the traced step of median length; null where no step was completed.
nlohmann::json measuredStep(const plan::Plan &plan, const Recording &recording);

} // namespace mgc::tools
