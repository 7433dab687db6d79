// The mgrun command of a line, as mgrun reads it.
#pragma once

#include "runtime/train/Training.h"
#include "tools/translate/Draft.h"

namespace mgc::tools {

// An error also where a file that an option names is not there.
Result<TrainingOptions> readRun(const Draft &draft);

// Why mgrun would refuse the command or its schedule, but for files; empty: it would not.
std::string problemOfRun(const Draft &draft);

} // namespace mgc::tools
