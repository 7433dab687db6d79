// Functions of libcuda's stand-in for the stand-ins that link to libcuda.so.1: all of them see the same devices.
#pragma once

#include <cstddef>
#include <cuda.h>
#include <functional>

namespace mgc::emulate {

// An operation of a stream. It may run more than once, as part of a graph.
using Work = std::function<CUresult()>;

} // namespace mgc::emulate

extern "C" {
// Puts the operation at the end of the stream, or into the graph that is being captured.
CUresult mgcEmulateEnqueue(CUstream stream, const mgc::emulate::Work &work);
// The same, behind what `last` was recorded after, which then is recorded behind it; a graph and what runs outside of it are not
// ordered by this.
CUresult mgcEmulateEnqueueBehind(CUstream stream, CUevent last, const mgc::emulate::Work &work);
// Host address of device memory. Null, and a failed device, when the bytes lie in no allocation; `what` is said then.
void *mgcEmulateHost(CUdeviceptr address, size_t bytes, const char *what);
// The device takes no more work; `what` is printed.
void mgcEmulateFail(CUresult result, const char *what);
// CUDA_SUCCESS while the device works.
CUresult mgcEmulateState();
}
