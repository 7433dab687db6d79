// The reader that Command R and Command R7B share: attention and mlp side by side behind one layer norm without bias,
// neighbours rotate, scaled logits.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

bool readCohere(Config &config, ModelDescription &model, BlockDescription &block, double theta);

} // namespace mgc::frontend
