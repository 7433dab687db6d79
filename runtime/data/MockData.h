// Made-up tokens: a chain over at most 128 tokens that any model learns, causal or masked.
#pragma once

#include "runtime/data/BatchShape.h"
#include "runtime/data/SampleForm.h"

namespace mgc {

// Documents have at most `longest` tokens; 0: any length.
std::unique_ptr<DataSource> makeTokenChain(const BatchShape &shape, const SampleForm &form, int64_t longest,
                                           uint64_t seed);

} // namespace mgc
