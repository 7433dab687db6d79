#include "runtime/device/cuda/kernels/attention.cuh"

MGC_ATTENTION_KERNELS(64)
