// The tokenizer that a line names, where its files are there.
#pragma once

#include "runtime/tokenizers/Tokenizer.h"
#include "tools/translate/MegatronLine.h"

namespace mgc::tools {

// Whether its tokens are numbers: of --vocab-size, and one more, which ends a document.
bool isNullTokenizer(const MegatronLine &line);

// Null: the line names none, or its files are not there or no tokenizer's.
std::unique_ptr<Tokenizer> tokenizerOf(const MegatronLine &line);

} // namespace mgc::tools
