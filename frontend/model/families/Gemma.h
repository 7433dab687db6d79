// The reader that all of Gemma share: norms that multiply by 1 + weight, embeddings times the root of their size, a tied
// head, biases of attention where attention_bias says so.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// As readDecoder, for what the family's class has in the place of `theta`.
bool readGemma(Config &config, ModelDescription &model, BlockDescription &block, const RopeFields &rope);

// The names of layers with a norm before and a norm after each branch: Gemma 2 and 3.
extern const std::span<const TensorRow> kGemmaRows;

// Sets the norms after both branches, and the scale of the scores from query_pre_attn_scalar.
void readGemma2Layer(Config &config, const ModelDescription &model, BlockDescription &block);

// The bound that final_logit_softcapping or attn_logit_softcapping gives; null: none.
double readSoftcap(Config &config, std::string_view key, double fallback);

} // namespace mgc::frontend
