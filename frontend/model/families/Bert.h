// What BERT and those that followed share: a norm of each sum, embeddings of positions and of kinds of tokens, tokens that were
// masked are predicted, by a head that transforms first.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// Reads one layer; a model of so many equal ones. False when the sizes are not usable.
bool readBert(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers);

// BERT's names behind a prefix of their own are a family's table; these are the ends that files of old have in their place.
extern const std::span<const std::pair<std::string_view, std::string_view>> kOldNormEnds;

} // namespace mgc::frontend
