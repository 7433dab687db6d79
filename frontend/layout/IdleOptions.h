// Options that were given and change nothing in a layout. Scripts that try many layouts ask for them everywhere, so it is said and not
// refused.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// A line for each of `asked`: "--sp does nothing here: tp is 1, so no rank has a part of the sequence".
std::vector<std::string> idleOptions(const LayoutOptions &asked, const Layout &layout);

} // namespace mgc::frontend
