// A model and its layout -> the logical mg module (docs/ir.md, "import"): one function per distinct
// block, the chain of their instances, and the module's attributes.
#pragma once

#include "dialects/mg/Mg.h"
#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Loads the dialects it needs. The module is verified; null, with diagnostics, when that fails (our own bug:
// a description and a resolved layout always give a valid module).
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context, const ModelDescription &model,
                                              const Layout &layout);

} // namespace mgc::frontend
