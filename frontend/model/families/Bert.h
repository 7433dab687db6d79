// BERT and the families that follow it share one reader: a norm of each sum, embeddings of positions and of kinds of tokens,
// and a head that transforms before it predicts masked tokens.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// Reads one layer; a model of so many equal ones. False when the sizes are not usable.
bool readBert(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers);

extern const std::span<const TensorRow> kBertRows; // embeddings and layers, behind the prefix of the family

} // namespace mgc::frontend
