// Made-up tokens: a chain over at most 128 tokens that any model learns, causal or masked.
#pragma once

#include "runtime/data/BatchShape.h"
#include "runtime/data/SampleForm.h"

namespace mgc {

// Documents have at most `longest` tokens; 0: any length.
std::unique_ptr<DataSource> makeTokenChain(const BatchShape &shape, const SampleForm &form, int64_t longest,
                                           uint64_t seed);

// For a model with an encoder: each of the decoder's labels follows from the token at its place that the encoder reads, or,
// behind the last of these, from the label before it.
std::unique_ptr<DataSource> makePairs(const BatchShape &shape, uint64_t seed);

} // namespace mgc
