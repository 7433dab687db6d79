// Options of recomputation (docs/memory.md): which layers and modules recompute in backward what forward did not save.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

// Sets the layout's fields of recomputation by the options that are given, and records what contradicts, as Megatron-LM does. Words
// are possible ones.
void resolveRecompute(const ModelDescription &model, const LayoutOptions &asked, Layout &layout, Problems &problems);

// Drops options that contradict others, or are of modules that the model has none of.
void setNearestRecompute(const ModelDescription &model, LayoutOptions &options);

// "--recompute-modules layernorm does nothing here: ..", of a module whose values are recomputed unless all are saved.
std::string alwaysRecomputed(std::string_view flag, std::string_view module);
// Whether some layer has the module, a name in kRecomputeModules.
bool hasRecomputeModule(const ModelDescription &model, std::string_view name);
// Modules that --recompute-modules knows.
std::vector<std::string> recomputeModuleNames();
// Why a word of Megatron-LM is none of them; empty: it has no such module either.
std::string whyNoRecomputeModule(const std::string &word);

} // namespace mgc::frontend
