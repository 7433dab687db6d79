// `mgc compile --rules FILE`: a placement table of the user's instead of Megatron-LM's.
#pragma once

#include "dialects/mg/Mg.h"
#include "runtime/base/Status.h"

namespace mgc::frontend {

// Replaces mg.placement of the module by the table in a JSON file: dimension name -> list of mesh axes, or
// {"axes": [...], "with": dimension, "extra": [...]}, where the extra axes are taken beside the dimension
// `with` only, and where nothing else takes them. Dimensions without a row are whole. The module has mg.mesh.
//
//     {"b": ["dp"], "g": ["tpg"], "r": ["tpr"], "f": ["tp"], "v": ["tp"],
//      "s": {"axes": ["cp"], "with": "h", "extra": ["tp"]}}
Status setPlacement(mlir::ModuleOp module, const std::string &path);

} // namespace mgc::frontend
