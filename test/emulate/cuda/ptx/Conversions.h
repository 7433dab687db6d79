// How cvt makes whole numbers (Op::aux).
#pragma once

#include <cstdint>

namespace mgc::ptx {

constexpr uint32_t kNearest = 1, kToZero = 2, kDown = 3, kUp = 4, kWholeMask = 7, kSaturate = 8;

} // namespace mgc::ptx
