// The rules that a layout must satisfy for a model, and the nearest layout that does; used by resolveLayout.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Records every violation, each with the values that would work; warnings go to the layout.
void checkLayout(const ModelDescription &model, const Supported &supported, Layout &layout, Problems &problems);

// The flags of a layout close to `layout` (whose sizes are in range) that checkLayout should find nothing wrong with,
// with the same defaults of the file: the `flags` that were given, as far as they can stay, and all sizes. As many
// sizes as can stay do; the others are no larger than they were, but where the least is larger. Replicas make up for
// it: where --world and no --dp was asked for, there are as many as come nearest to it.
LayoutOptions nearestLayout(const ModelDescription &model, const Supported &supported, const Layout &layout,
                            const LayoutOptions &flags, const LayoutOptions &defaults);

} // namespace mgc::frontend
