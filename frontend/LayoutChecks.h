// What a layout must satisfy for a model; used by resolveLayout.
#pragma once

#include "frontend/Layout.h"

namespace mgc::frontend {

// Records every violation, each with the values that would work; warnings go to the layout.
void checkLayout(const ModelDescription &model, const Supported &supported, Layout &layout,
                 Problems &problems);

} // namespace mgc::frontend
