// mg.place and mg.param -> the plan's parameters: what each is in its file, and where it lies in the buckets of stages.
#pragma once

#include "compiler/program/Blocks.h"
#include "plan/Plan.h"

namespace mgc {

// Adds the parameters of the plan's last stage, or its places to those that are there.
Status addParameters(StageOp stage, const Blocks &blocks, plan::Plan &plan);

} // namespace mgc
