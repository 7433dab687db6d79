// When values of which ranks have slices are gathered: `gather` of mg.bucket.
#pragma once

#include "plan/Reflection.h"

#include <array>
#include <cstdint>

namespace mgc {

// never: ranks have them whole. use: one unit at a time, before each call that reads some. microbatch: before calls of forward, for
// backward too. step: before the first call of a step that reads some.
enum class GatherTime : uint8_t { never, use, microbatch, step };

} // namespace mgc

template <>
inline constexpr auto mgc::plan::enumNames<mgc::GatherTime> =
    std::to_array<std::string_view>({"never", "use", "microbatch", "step"});
