// Driver API: streams, events and graphs.
#include "test/emulate/cuda/driver/Stream.h"

using namespace mgc::emulate;

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int priority) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  *stream = makeStream(*current());
  (*stream)->priority = priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy(CUstream stream) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  dropStream(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    *priority = resolve(stream)->priority;
  return result;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = refuseWhileCapturing(resolve(stream)); result != CUDA_SUCCESS)
    return result;
  finish(resolve(stream))->wait();
  return state();
}

CUresult cuStreamQuery(CUstream stream) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = refuseWhileCapturing(resolve(stream)); result != CUDA_SUCCESS)
    return result;
  return isIdle(resolve(stream)) ? state() : CUDA_ERROR_NOT_READY; // it may have failed just now
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  CUresult result = enter();
  return result == CUDA_SUCCESS ? await(resolve(stream), event) : result;
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (address % 4 || !isDevice(address, 4))
    return CUDA_ERROR_INVALID_VALUE;
  return enqueue(resolve(stream), [=] {
    if (void *place = mgcEmulateHost(address, 4, "write of a value"))
      std::atomic_ref(*static_cast<cuuint32_t *>(place)).store(value);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  return enqueue(resolve(stream), [=] {
    function(data);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  *event = new CUevent_st;
  (*event)->isTimed = !(flags & CU_EVENT_DISABLE_TIMING);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  delete event;
  return enter();
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  CUresult result = enter();
  return result == CUDA_SUCCESS ? record(event, resolve(stream)) : result;
}

CUresult cuEventQuery(CUevent event) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(event->mutex);
  if (event->capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  return !event->last || event->last->isSet() ? state() : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  std::shared_ptr<Completion> last;
  {
    std::lock_guard lock(event->mutex);
    if (event->capture)
      return CUDA_ERROR_CAPTURED_EVENT;
    last = event->last;
  }
  if (last)
    last->wait();
  return state();
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (!begin->isTimed || !end->isTimed || !begin->last || !end->last)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!begin->last->isSet() || !end->last->isSet())
    return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->last->when() - begin->last->when()).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  CUresult result = enter();
  return result == CUDA_SUCCESS ? beginCapture(resolve(stream), mode) : result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult result = enter();
  return result == CUDA_SUCCESS ? endCapture(resolve(stream), graph) : result;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    const auto &capture = resolve(stream)->capture;
    *status = !capture            ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture->isBroken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
  return result;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  *count = graph->nodes.size();
  CUresult result = enter();
  return result == CUDA_SUCCESS && nodes ? CUDA_ERROR_NOT_SUPPORTED : result;
}

// Priorities change nothing here, where all streams run at once.
CUresult cuGraphInstantiate(CUgraphExec *runnable, CUgraph graph, unsigned long long flags) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
    return CUDA_ERROR_INVALID_VALUE;
  *runnable = new CUgraphExec_st{std::make_shared<const std::vector<Node>>(graph->nodes)};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  const uint64_t seed = settings().seed;
  return enqueue(resolve(stream),
                 [nodes = graph->nodes, seed, times = uint64_t(0)]() mutable { return run(*nodes, seed + ++times); });
}

CUresult cuGraphUpload(CUgraphExec, CUstream) { return enter(); }

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  delete graph;
  return enter();
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return enter();
}
}
