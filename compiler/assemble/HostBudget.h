// --host-memory: the most memory of the host that a rank may take.
#pragma once

#include "compiler/assemble/Decisions.h"

namespace mgc {

// Error: a stage whose memory on the host is above the budget, with what would work. In: stages that are placed.
Status verifyHostMemory(const Decisions &decisions);

} // namespace mgc
