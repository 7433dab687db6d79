// mg.stage and what is decided of it -> plan::StagePlan.
#pragma once

#include "compiler/assemble/Decisions.h"
#include "compiler/assemble/Programs.h"

namespace mgc {

struct StageContext {
  mlir::ModuleOp module;
  const std::vector<AssembledProgram> &programs;
  const std::map<std::string, int64_t> &programOf; // by function name; one that does nothing has none
  const HostCopyPrograms &hostCopies;
};

plan::StagePlan assembleStage(const StageDecisions &stage, const StageContext &context);

} // namespace mgc
