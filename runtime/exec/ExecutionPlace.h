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
  int64_t layer = 0;                   // the instruction's
  bool isOfSeveralLayers = false;      // its program is
};

// "rank 3 (stage 1), step 5, microbatch 2, forward.0, layer.7.forward/attn.q", as labelOf names instructions
std::string toString(const ExecutionPlace &place);

} // namespace mgc
