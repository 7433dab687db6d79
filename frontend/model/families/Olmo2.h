// The reader that OLMo 2 and 3 share: a norm after each branch and none before, norms of queries and keys over all their heads.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

bool readOlmo2(Config &config, ModelDescription &model, BlockDescription &block, const RopeFields &rope);

extern const std::span<const TensorRow> kNormAfterRows; // names of norms after branches where none are before

} // namespace mgc::frontend
