// The traced steps of a run as a Chrome trace, which Perfetto reads: docs/profiling.md.
#pragma once

#include "runtime/exec/Engine.h"

#include <string>

namespace mgc {

inline constexpr std::string_view kTraceBegins = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

// Replaces the file at `path` in one step.
Status writeTrace(const plan::Plan &plan, const Recording &recording, const std::string &path);

} // namespace mgc
