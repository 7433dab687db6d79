#include "runtime/base/Bf16.h"

namespace mgc {

void widen(const Bf16 *__restrict from, int64_t count, float *__restrict to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = toFloat(from[i]);
}

void narrow(const float *__restrict from, int64_t count, Bf16 *__restrict to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = toBf16(from[i]);
}

} // namespace mgc
