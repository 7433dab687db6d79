#include "plan/Types.h"

namespace mgc::plan {

std::string_view nameOf(Target target) { return nameIn(target); }
std::string_view nameOf(DType type) { return nameIn(type); }
std::string_view nameOf(OperandUse use) { return nameIn(use); }

int64_t sizeInBytes(DType type) { return type == DType::bf16 ? 2 : 4; }

} // namespace mgc::plan
