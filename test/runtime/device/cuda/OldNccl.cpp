// libnccl.so.2 of a version so old that it does not say it: 0.0.0.
#include "runtime/device/cuda/Nccl.h"
#include "test/runtime/device/cuda/Answer.h"

extern "C" int answer(void) { return ncclSuccess; }
MGC_NCCL_FUNCTIONS(MGC_ANSWER)
