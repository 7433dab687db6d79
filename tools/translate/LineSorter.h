// Sorts the flags of a line by the tables of the tools: the options of mgc compile (frontend/layout/Options.h) and of mgrun
// (runtime/train/RunOptions.h), the flags of a model (model/ModelFlags.h), and flags with an answer (ForeignAnswers.h).
#pragma once

#include "frontend/Load.h"
#include "tools/translate/Draft.h"
#include "tools/translate/ModelOfLine.h"

namespace mgc::tools {

struct SortingInputs {
  const MegatronLine &line;
  const frontend::ModelDescription *model = nullptr; // the one that is given or made of the line; null: there is none
  const LineModel *made = nullptr;                   // null: the model is given
  const frontend::Supported &supported;
};
Draft sortLine(const SortingInputs &inputs);

} // namespace mgc::tools
