// libcuda.so.1 with a kernel module of another version: it has everything and does nothing.
#include "runtime/device/cuda/Driver.h"
#include "test/runtime/device/cuda/Answer.h"

extern "C" int answer(void) { return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH; }
MGC_DRIVER_FUNCTIONS(MGC_ANSWER)
