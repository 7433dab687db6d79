// mg.stage after memory -> plan::StagePlan, and the plan's parameters.
#pragma once

#include "compiler/emit/Programs.h"
#include "compiler/stage/Buckets.h"
#include "compiler/stage/ChunkLayout.h"

namespace mgc {

struct EmitContext {
  mlir::ModuleOp module;
  const Blocks &blocks;
  const std::vector<EmittedProgram> &programs;
  const std::map<std::string, int64_t> &programOf; // by function name; one that does nothing has none
};

Result<plan::StagePlan> emitStage(StageOp stage, const EmitContext &context);

// Adds the stage's parameters, or its places to those that are there.
Status addParameters(StageOp stage, const EmitContext &context, std::vector<plan::Parameter> &parameters,
                     std::map<std::string, size_t> &known);

} // namespace mgc
