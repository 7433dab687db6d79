#include "test/emulate/cuda/driver/Stream.h"

#include <algorithm>

namespace mgc::emulate {

void Completion::set() {
  std::lock_guard lock(mutex_);
  isSet_ = true;
  when_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

bool Completion::isSet() {
  std::lock_guard lock(mutex_);
  return isSet_;
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return isSet_; });
}

std::chrono::steady_clock::time_point Completion::when() {
  std::lock_guard lock(mutex_);
  return when_;
}

// Most operations start at once, some late, a few very late.
void pause(std::mt19937_64 &random) {
  const uint64_t longest = settings().delay;
  if (longest == 0)
    return;
  const uint64_t kind = random() % 8, most = kind < 4 ? 0 : kind < 7 ? longest / 8 : longest;
  if (most)
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (most + 1)));
}

namespace {

// Takes a dropped stream from its device's list, unless it has been given more to do: until then it is waited for.
bool leave(CUstream stream) {
  std::lock_guard device(stream->device->mutex);
  std::lock_guard lock(stream->mutex);
  if (!stream->queue.empty())
    return false;
  std::erase(stream->device->streams, stream);
  return true;
}

// The life of a stream's thread. A failed device runs nothing more, but what waits for the stream goes on.
void serve(CUstream stream) {
  for (;;) {
    std::unique_lock lock(stream->mutex);
    stream->changed.wait(lock, [&] { return stream->isDropped || !stream->queue.empty(); });
    if (stream->queue.empty()) {
      lock.unlock();
      if (leave(stream))
        break;
      continue;
    }
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->isBusy = true;
    lock.unlock();
    pause(stream->random);
    if (CUresult result = work(); result != CUDA_SUCCESS)
      fail(result, "an operation of a stream failed");
    lock.lock();
    stream->isBusy = false;
  }
  delete stream;
}

void push(CUstream stream, Work work) {
  std::lock_guard lock(stream->mutex);
  stream->queue.push_back(std::move(work));
  stream->changed.notify_all();
}

} // namespace

CUstream makeStream(CUctx_st &device) {
  static std::atomic<uint64_t> made = 0;
  auto *stream = new CUstream_st;
  stream->device = &device;
  stream->random.seed(settings().seed * 1000003 + made++);
  std::lock_guard lock(device.mutex);
  device.streams.push_back(stream);
  std::thread(serve, stream).detach();
  return stream;
}

void dropStream(CUstream stream) {
  std::lock_guard lock(stream->mutex);
  stream->isDropped = true;
  stream->changed.notify_all();
}

CUstream resolve(CUstream stream) {
  const bool isPlain = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  return isPlain ? current()->plain : stream;
}

CUresult enqueue(CUstream stream, Work work) {
  if (CUresult result = state(); result != CUDA_SUCCESS)
    return result;
  if (auto capture = stream->capture) {
    std::lock_guard lock(capture->mutex);
    capture->nodes.push_back({std::move(work), stream->tail});
    stream->tail = {capture->nodes.size() - 1};
    return CUDA_SUCCESS;
  }
  push(stream, [work = std::move(work)] { return state() == CUDA_SUCCESS ? work() : CUDA_SUCCESS; });
  return CUDA_SUCCESS;
}

std::shared_ptr<Completion> finish(CUstream stream) {
  auto done = std::make_shared<Completion>();
  push(stream, [done] {
    done->set();
    return CUDA_SUCCESS;
  });
  return done;
}

bool isIdle(CUstream stream) {
  std::lock_guard lock(stream->mutex);
  return stream->queue.empty() && !stream->isBusy;
}

void finishAll(CUctx_st &device) {
  std::vector<std::shared_ptr<Completion>> waits;
  {
    std::lock_guard lock(device.mutex);
    for (CUstream stream : device.streams)
      waits.push_back(finish(stream));
  }
  for (auto &wait : waits)
    wait->wait();
}

CUresult record(CUevent event, CUstream stream) {
  std::lock_guard lock(event->mutex);
  if (stream->capture) {
    event->capture = stream->capture;
    event->tail = stream->tail;
    return CUDA_SUCCESS;
  }
  event->capture = nullptr;
  event->last = finish(stream);
  return CUDA_SUCCESS;
}

// A stream that waits for a captured event joins its capture.
CUresult await(CUstream stream, CUevent event) {
  std::lock_guard lock(event->mutex);
  if (event->capture) {
    if (event->capture->isOver)
      return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture && stream->capture != event->capture)
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!stream->capture) {
      std::lock_guard captureLock(event->capture->mutex);
      event->capture->streams.push_back(stream);
      stream->capture = event->capture;
      stream->tail.clear();
    }
    for (size_t node : event->tail)
      if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end())
        stream->tail.push_back(node);
    return CUDA_SUCCESS;
  }
  if (!event->last)
    return CUDA_SUCCESS;
  if (stream->capture) {
    stream->capture->isBroken = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  push(stream, [last = event->last] {
    last->wait();
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

} // namespace mgc::emulate

extern "C" CUresult mgcEmulateEnqueue(CUstream stream, const mgc::emulate::Work &work) {
  if (CUresult result = mgc::emulate::enter(); result != CUDA_SUCCESS)
    return result;
  return mgc::emulate::enqueue(mgc::emulate::resolve(stream), work);
}

extern "C" CUresult mgcEmulateEnqueueBehind(CUstream given, CUevent last, const mgc::emulate::Work &work) {
  if (CUresult result = mgc::emulate::enter(); result != CUDA_SUCCESS)
    return result;
  CUstream stream = mgc::emulate::resolve(given);
  if (last->capture == stream->capture)
    if (CUresult result = mgc::emulate::await(stream, last); result != CUDA_SUCCESS)
      return result;
  if (CUresult result = mgc::emulate::enqueue(stream, work); result != CUDA_SUCCESS)
    return result;
  return mgc::emulate::record(last, stream);
}
