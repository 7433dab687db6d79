// mgc compile --auto: the layouts that take least time are searched, compiled up to their plans, proved and printed.
#pragma once

#include "frontend/Load.h"
#include "planner/Trials.h"
#include "tools/commands/Flags.h"

namespace mgc::tools {

struct AutoModel {
  const frontend::ModelFile &file;
  const frontend::Supported &supported; // with the machine and the schedule of files
  const planner::MakeModule &make;
};

// Prints the report to standard output. Out: the options of the fastest layout. Error: nothing fits, or the search and a plan differ.
Result<frontend::LayoutOptions> chooseLayout(const CompileFlags &flags, const AutoModel &model);

} // namespace mgc::tools
