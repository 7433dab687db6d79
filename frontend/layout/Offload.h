// Options of offloading (docs/memory.md): what of a rank's memory is on the host.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Sets the layout's fields of offloading by the options that are given, and records what contradicts. In: the layout's target,
// level of ZeRO and mesh.
void resolveOffload(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems);

// Whether the update must leave values in slices, which each next step gathers: pieces of what ranks share out are no pieces of
// the whole.
bool offloadNeedsSlices(const Layout &layout);

// Drops options that contradict others, or are of modules that the model has none of.
void setNearestOffload(const ModelDescription &model, const Layout &layout, LayoutOptions &options);

} // namespace mgc::frontend
