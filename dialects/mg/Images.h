// plan::Images as an attribute of mg.training: {channels = 3, patch_size = 14, rows = 24, ..}.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/Plan.h"

namespace mgc {

// The key of mg.training; absent: no encoder of the model reads images.
inline constexpr llvm::StringLiteral kImages = "images";

mlir::DictionaryAttr imagesAttr(mlir::Builder &builder, const plan::Images &images);
// Numbers that it lacks are 0, all of them of a null attribute.
plan::Images readImages(mlir::DictionaryAttr attribute);

} // namespace mgc
