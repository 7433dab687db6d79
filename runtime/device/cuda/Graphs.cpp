// Graphs: what one thread enqueues on a stream, and on those that join it by events, kept and launched as one. Other threads are
// not hindered.
#include "runtime/device/cuda/Internal.h"

struct mgc_graph {
  mgc_device *device;
  CUgraphExec handle;
};

namespace mgc::cuda {

Status beginCapture(mgc_stream *stream) {
  MGC_TRY(stream->device->enter());
  return check(*stream->device,
               stream->device->driver->cuStreamBeginCapture(stream->handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
               "beginning to capture a graph");
}

Status endCapture(mgc_stream *stream, mgc_graph **graph) {
  mgc_device &device = *stream->device;
  MGC_TRY(device.enter());
  CUgraph captured = nullptr;
  MGC_TRY(check(device, device.driver->cuStreamEndCapture(stream->handle, &captured), "capturing a graph"));
  CUgraphExec handle = nullptr;
  // Else all of it would have the priority of the stream that it is launched on, and collectives wait behind matrix
  // products.
  const CUresult result =
      device.driver->cuGraphInstantiate(&handle, captured, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  device.driver->cuGraphDestroy(captured);
  MGC_TRY(check(device, result, "making a captured graph ready (it takes device memory beside the plan's)"));
  *graph = new mgc_graph{&device, handle};
  return Status::ok();
}

void dropGraph(mgc_graph *graph) {
  graph->device->driver->cuCtxSetCurrent(graph->device->context);
  graph->device->driver->cuGraphExecDestroy(graph->handle);
  delete graph;
}

Status launchGraph(mgc_stream *stream, mgc_graph *graph) {
  MGC_TRY(stream->device->enter());
  return check(*stream->device, stream->device->driver->cuGraphLaunch(graph->handle, stream->handle),
               "launching a graph");
}

} // namespace mgc::cuda
