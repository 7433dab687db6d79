// The seed of programs that are given none.
#pragma once

#include <cstdint>

namespace mgc {

inline constexpr uint64_t kDefaultSeed = 1234; // Megatron-LM's

} // namespace mgc
