// Options whose words the compiler knows: its schedules and targets, and the machines that it predicts by.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::tools {

frontend::Supported supportedByCompiler();

} // namespace mgc::tools
