// Words that are no value of an option.
#pragma once

#include "frontend/layout/LayoutChecks.h"
#include "frontend/layout/Options.h"

namespace mgc::frontend {

// Why the word is none of the option's: "is not known".
std::string refusalOf(const LayoutOption &option, const std::string &word);

// Refuses words of a model file that no layout takes, also where a flag goes before them or nothing reads them today.
void refuseUnknownWords(const LayoutOptions &ofFile, const Supported &supported, Problems &problems);

} // namespace mgc::frontend
