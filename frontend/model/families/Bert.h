// What BERT and those that followed share: a norm of each sum, embeddings of positions and of kinds of tokens, tokens that were
// masked are predicted, by a head that transforms first.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// Reads one layer; a model of so many equal ones. False when the sizes are not usable.
bool readBert(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers);

} // namespace mgc::frontend
