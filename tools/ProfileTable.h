// A profile as people read it: a table with a row per kernel, the parts of the step, the bound.
#pragma once

#include "runtime/measure/Profile.h"

namespace mgc {

std::string describeProfile(const Profile &profile);

} // namespace mgc
