#include "runtime/plan/Plan.h"

namespace mgc::plan {

int64_t sizeInBytes(DType) { return 4; } // f32 and i32 alike

int64_t Mesh::worldSize() const {
  int64_t size = 1;
  for (const Axis &axis : axes)
    size *= axis.size;
  return size;
}

} // namespace mgc::plan
