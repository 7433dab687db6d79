// How a memory instruction finds its bytes (Op::aux).
#pragma once

#include <cstdint>

namespace mgc::ptx {

enum Access : uint32_t { accessGlobal, accessShared, accessGeneric, kAccessMask = 3, kShortAddress = 4 };

} // namespace mgc::ptx
