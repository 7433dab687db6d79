// What a layout must satisfy for a model, and the nearest one that does; used by resolveLayout.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Records every violation, each with the values that would work; warnings go to the layout.
void checkLayout(const ModelDescription &model, const Supported &supported, Layout &layout,
                 Problems &problems);

// The flags of a layout close to `layout` (whose sizes are in range) that checkLayout should find nothing
// wrong with: no size is larger than it was, but where the least is larger.
LayoutOptions nearestLayout(const ModelDescription &model, const Supported &supported, const Layout &layout);

} // namespace mgc::frontend
