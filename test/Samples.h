// Samples of long sweeps, as test/e2e/samples.py chooses them.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace mgc {

// Whether the item of this number belongs to the sample, one of `step`: the one that MGC_TEST_SEED chooses, which scripts/test sets.
// A program that is run by hand takes all items.
inline bool isSampled(int64_t number, int64_t step) {
  const char *seed = std::getenv("MGC_TEST_SEED");
  return !seed || (number + std::atoll(seed)) % step == 0;
}

} // namespace mgc
