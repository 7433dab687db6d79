// The names of tensors that BLOOM and Falcon share.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

extern const std::span<const TensorRow> kBloomRows;

} // namespace mgc::frontend
