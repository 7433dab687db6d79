// The space that --auto searches, or --tp auto. In: the command line and the model's file. Out: the options that are fixed, the machine, the
// memory of a rank, the numbers of devices.
#pragma once

#include "frontend/Load.h"
#include "plan/cost/Machine.h"
#include "tools/commands/Flags.h"

namespace mgc::tools {

struct SearchedSpace {
  frontend::LayoutOptions given; // flags, the options of the model's file, and what follows: machine, target, memory
  cost::Machine machine;
  double imbalance = 1;               // cost::Cluster::imbalance
  bool onlyOpen = false;              // options that are kAuto are searched; else all that are not given
  int64_t memory = 0, hostMemory = 0; // bytes that a rank may take
  std::vector<int64_t> devices;
};

// Error: all that contradicts or is missing.
Result<SearchedSpace> spaceOf(const CompileFlags &flags, const frontend::ModelFile &file,
                              const frontend::Supported &supported);

} // namespace mgc::tools
