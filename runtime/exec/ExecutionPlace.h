// Where a rank stands, for errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mgc {

struct ExecutionPlace {
  int64_t rank = 0, stage = 0;
  int64_t step = 0;                    // training step
  int64_t microbatch = -1;             // -1: none
  std::string_view chunk, instruction; // empty: between chunks, between instructions
  int64_t instance = -1;               // the layer of the instruction; -1: its chunk has but one
};

// "rank 3 (stage 1), step 5, microbatch 2, forward.0, layer.fwd[7]/attn.q": in layer 7
std::string toString(const ExecutionPlace &place);

} // namespace mgc
