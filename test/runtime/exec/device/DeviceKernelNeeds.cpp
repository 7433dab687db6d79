// The needs of TestKernels.cpp in plans of the default sizes: 16 positions, 2 samples.
#include <cstdint>

#define MGC_NEEDS(symbol, ...)                                                                               \
  extern "C" {                                                                                               \
  extern const int64_t symbol##_needs[];                                                                     \
  const int64_t symbol##_needs[] = {__VA_ARGS__};                                                            \
  }

// range, scalars, operands, bytes of each
MGC_NEEDS(scaleForward, 16, 1, 3, 128, 64, 128)
MGC_NEEDS(scaleBackward, 16, 1, 3, 128, 128, 64)
MGC_NEEDS(linearLoss, 1, 1, 4, 128, 128, 128, 8)
MGC_NEEDS(norm, 1, 1, 2, 64, 12)
MGC_NEEDS(descend, 16, 0, 4, 64, 64, 4, 8)
