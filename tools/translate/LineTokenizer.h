// The tokenizer that a line names, where its files are there.
#pragma once

#include "runtime/tokenizers/Tokenizer.h"
#include "tools/translate/MegatronLine.h"

namespace mgc::tools {

// Null: the line names none, or its files are not there or no tokenizer's.
std::unique_ptr<Tokenizer> tokenizerOf(const MegatronLine &line);

} // namespace mgc::tools
