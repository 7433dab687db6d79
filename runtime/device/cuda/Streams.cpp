// Streams, events, marks, and how the host waits: it asks again and again with growing pauses, for the driver's own waits have no
// deadline.
#include "runtime/device/cuda/Internal.h"

#include <chrono>
#include <thread>

namespace mgc::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// Short waits are met at once, long ones leave the host's core to others and are seen 50 us late at most.
class Pause {
public:
  void operator()() {
    if (++asked_ < 200)
      return;
    std::this_thread::sleep_for(std::chrono::microseconds(asked_ < 400 ? 5 : 50));
  }

private:
  int64_t asked_ = 0;
};

// The driver makes the numerically lowest priority the highest.
Result<int> priority(mgc_device &device, bool high) {
  int least = 0, greatest = 0;
  MGC_TRY(
      check(device, device.driver->cuCtxGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams"));
  return high ? greatest : least;
}

} // namespace

Status makeStream(mgc_device *device, int32_t highPriority, mgc_stream **stream) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(level, priority(*device, highPriority != 0));
  CUstream handle = nullptr;
  MGC_TRY(check(*device, device->driver->cuStreamCreateWithPriority(&handle, CU_STREAM_NON_BLOCKING, level),
                "making a stream"));
  *stream = new mgc_stream{device, handle};
  return Status::ok();
}

void dropStream(mgc_stream *stream) {
  stream->device->driver->cuCtxSetCurrent(stream->device->context);
  stream->device->driver->cuStreamDestroy(stream->handle);
  delete stream;
}

Status makeEvent(mgc_device *device, int32_t timed, mgc_event **event) {
  MGC_TRY(device->enter());
  CUevent handle = nullptr;
  const unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  MGC_TRY(check(*device, device->driver->cuEventCreate(&handle, flags), "making an event"));
  *event = new mgc_event{device, handle, timed != 0};
  return Status::ok();
}

void dropEvent(mgc_event *event) {
  event->device->driver->cuCtxSetCurrent(event->device->context);
  event->device->driver->cuEventDestroy(event->handle);
  delete event;
}

Status record(mgc_stream *stream, mgc_event *event) {
  MGC_TRY(stream->device->enter());
  return check(*stream->device, stream->device->driver->cuEventRecord(event->handle, stream->handle),
               "recording an event");
}

Status wait(mgc_stream *stream, mgc_event *event) {
  MGC_TRY(stream->device->enter());
  return check(*stream->device, stream->device->driver->cuStreamWaitEvent(stream->handle, event->handle, 0),
               "waiting for an event");
}

Status query(mgc_event *event, int32_t *done) {
  MGC_TRY(event->device->enter());
  const CUresult result = event->device->driver->cuEventQuery(event->handle);
  *done = result == CUDA_SUCCESS;
  return check(*event->device, result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result,
               "asking whether an event is done");
}

Status milliseconds(mgc_event *begin, mgc_event *end, double *value) {
  MGC_TRY(begin->device->enter());
  if (!begin->isTimed || !end->isTimed)
    return errorf("{}: the time between events that were made without one", begin->device->name);
  float elapsed = 0;
  MGC_TRY(check(*begin->device, begin->device->driver->cuEventElapsedTime(&elapsed, begin->handle, end->handle),
                "asking for the time between two events"));
  *value = elapsed;
  return Status::ok();
}

Status synchronize(mgc_stream *stream, int64_t timeoutMs) {
  MGC_TRY(stream->device->enter());
  const auto begin = Clock::now();
  Pause pause;
  while (true) {
    const CUresult result = stream->device->driver->cuStreamQuery(stream->handle);
    if (result != CUDA_ERROR_NOT_READY)
      return check(*stream->device, result, "waiting for a stream");
    if (timeoutMs >= 0 && Clock::now() - begin > std::chrono::milliseconds(timeoutMs))
      return errorf("{}: a stream has not finished within {} ms", stream->device->name, timeoutMs);
    pause();
  }
}

// With unified addressing, pinned host memory has one address for both.
Status mark(mgc_stream *stream, uint32_t *host, uint32_t value) {
  MGC_TRY(stream->device->enter());
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  return check(*stream->device, stream->device->driver->cuStreamWriteValue32(stream->handle, address, value, 0),
               "a mark");
}

} // namespace mgc::cuda
