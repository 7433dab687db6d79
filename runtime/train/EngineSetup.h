// The options of a run's engines, by what was asked for and how its processes share what they compute.
#pragma once

#include "runtime/exec/Engine.h"
#include "runtime/train/TrainingPart.h"

namespace mgc {

// `purpose`: of the engine, by which processes know what they share for it. What `options` and `shared` hold outlives the engine.
EngineOptions engineOptions(const TrainingOptions &options, const RunShared &shared, plan::Target target,
                            const std::string &purpose);

} // namespace mgc
