// A libcuda.so.1 without a device, for libraries that look for one to choose kernels: modules load into it and do nothing, all else
// is an error.
#include <cuda.h>

#undef cuLinkAddData
#undef cuLinkCreate

namespace {

template <typename Handle> CUresult give(Handle *handle) {
  static char something;
  *handle = reinterpret_cast<Handle>(&something);
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary *library, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *,
                           void **, unsigned) {
  return give(library);
}
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary, const char *) { return give(kernel); }
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "there is no device";
  return CUDA_SUCCESS;
}

// Looked for, not to be used.
#define MGC_ABSENT(name)                                                                                               \
  CUresult mgc_absent_##name() asm(#name);                                                                             \
  CUresult mgc_absent_##name() { return CUDA_ERROR_NO_DEVICE; }
MGC_ABSENT(cuCtxGetCurrent)
MGC_ABSENT(cuCtxGetDevice)
MGC_ABSENT(cuCtxGetLimit)
MGC_ABSENT(cuCtxPopCurrent)
MGC_ABSENT(cuCtxPushCurrent)
MGC_ABSENT(cuDeviceGet)
MGC_ABSENT(cuDeviceGetAttribute)
MGC_ABSENT(cuDeviceGetCount)
MGC_ABSENT(cuDevicePrimaryCtxRelease)
MGC_ABSENT(cuDevicePrimaryCtxReset)
MGC_ABSENT(cuDevicePrimaryCtxRetain)
MGC_ABSENT(cuDriverGetVersion)
MGC_ABSENT(cuFuncGetAttribute)
MGC_ABSENT(cuFuncSetAttribute)
MGC_ABSENT(cuGetErrorName)
MGC_ABSENT(cuInit)
MGC_ABSENT(cuKernelGetAttribute)
MGC_ABSENT(cuLaunchCooperativeKernel)
MGC_ABSENT(cuLaunchKernel)
MGC_ABSENT(cuLaunchKernelEx)
MGC_ABSENT(cuLibraryLoadFromFile)
MGC_ABSENT(cuLinkAddData)
MGC_ABSENT(cuLinkAddData_v2)
MGC_ABSENT(cuLinkAddFile_v2)
MGC_ABSENT(cuLinkComplete)
MGC_ABSENT(cuLinkCreate)
MGC_ABSENT(cuLinkCreate_v2)
MGC_ABSENT(cuLinkDestroy)
MGC_ABSENT(cuMemcpyDtoH_v2)
MGC_ABSENT(cuModuleGetFunction)
MGC_ABSENT(cuModuleGetGlobal_v2)
MGC_ABSENT(cuModuleLoadData)
MGC_ABSENT(cuModuleLoadDataEx)
MGC_ABSENT(cuModuleLoadFatBinary)
MGC_ABSENT(cuModuleUnload)
MGC_ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
MGC_ABSENT(cuOccupancyMaxPotentialClusterSize)
MGC_ABSENT(cuStreamGetCtx)
MGC_ABSENT(cuStreamSynchronize)
MGC_ABSENT(cuTensorMapEncodeTiled)
}
