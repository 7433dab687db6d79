// Whether a program is still the one that the config.json in its mg.model describes. Weights trained by another program
// (an epsilon, a theta or an activation edited in the .mlir) must not be saved next to that config.json.
#pragma once

#include "dialects/mg/Mg.h"
#include "runtime/base/Status.h"

#include <functional>

namespace mgc::frontend {

// Brings a module from the form that import gives to that of a phase.
using Lower = std::function<Status(mlir::ModuleOp module, const std::string &phase)>;

// Imports the config.json anew, with the module's own mesh, placement and training attributes, lowers it to the module's
// phase and compares: true where both are the same program. False also where the module has no config.json, or it cannot be
// read or lowered.
bool isOfItsConfig(mlir::ModuleOp module, const std::string &phase, const Lower &lower);

bool hasConfig(mlir::ModuleOp module); // in mg.model
// Takes the config.json out of mg.model.
void forgetConfig(mlir::ModuleOp module);

} // namespace mgc::frontend
