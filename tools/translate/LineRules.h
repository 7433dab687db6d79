// Options of a draft that contradict each other, of which one counts; some that are read beside others alone; and what Megatron-LM
// takes for granted.
#pragma once

#include "model/Description.h"
#include "tools/translate/Draft.h"

namespace mgc::tools {

// `model`: null where there is none.
void applyRules(Draft &draft, const MegatronLine &line, const frontend::ModelDescription *model);

} // namespace mgc::tools
