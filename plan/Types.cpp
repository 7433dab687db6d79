#include "plan/Types.h"

namespace mgc::plan {

int64_t sizeInBytes(DType type) { return type == DType::bf16 ? 2 : 4; }

} // namespace mgc::plan
