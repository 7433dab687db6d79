// The needs of TestKernels.cpp in plans of the default sizes: 16 positions, 2 samples.
#include "plan/StepScalars.h"

#include <cstdint>

#define MGC_NEEDS(symbol, ...)                                                                                         \
  extern "C" {                                                                                                         \
  extern const int64_t symbol##_needs[];                                                                               \
  const int64_t symbol##_needs[] = {__VA_ARGS__};                                                                      \
  }

#define MGC_READ(bytes) 0, bytes, 0, 0
#define MGC_WRITTEN(bytes) 1, bytes, 0, 0
#define MGC_UPDATED(bytes) 2, bytes, 0, 0

static constexpr int64_t kScalarBytes = 4 * int64_t(mgc::plan::kStepScalars.size());

// range, scalars, operands, what is done with each. Results of a step have a line.
MGC_NEEDS(scaleForward, 16, 1, 3, MGC_READ(128), MGC_READ(64), MGC_WRITTEN(128))
MGC_NEEDS(scaleBackward, 16, 1, 3, MGC_READ(128), MGC_READ(128), MGC_UPDATED(64))
MGC_NEEDS(linearLoss, 1, 1, 4, MGC_READ(128), MGC_READ(128), MGC_WRITTEN(128), MGC_UPDATED(64))
MGC_NEEDS(norm, 1, 1, 2, MGC_READ(64), MGC_UPDATED(64))
MGC_NEEDS(descend, 16, 0, 6, MGC_UPDATED(64), MGC_READ(64), MGC_READ(kScalarBytes), MGC_READ(64), MGC_UPDATED(64),
          MGC_UPDATED(64))
