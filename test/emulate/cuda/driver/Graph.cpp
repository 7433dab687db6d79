// Captures, and how graphs run.
#include "test/emulate/cuda/driver/Stream.h"

#include <algorithm>

namespace mgc::emulate {
namespace {

thread_local int forbidding = 0; // captures that this thread began in a mode that forbids waiting

// Threads for nodes that are ready: as many as there are such nodes at a time, so that one that waits for another rank holds
// up none.
class Pool {
public:
  void run(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() > idle_)
      std::thread([this] { serve(); }).detach();
    changed_.notify_one();
  }

private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      --idle_;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;
};

Pool &pool() {
  static auto &all = *new Pool;
  return all;
}

// One run of a graph.
struct Run : std::enable_shared_from_this<Run> {
  Run(const std::vector<Node> &given, uint64_t seed)
      : nodes(given), missing(given.size()), followers(given.size()), random(seed) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      missing[i] = nodes[i].after.size();
      for (size_t before : nodes[i].after)
        followers[before].push_back(i);
    }
  }

  void start() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (missing[i] == 0)
        ready.push_back(i);
    for (size_t node : ready)
      pool().run([self = shared_from_this(), node] { self->runFrom(node); });
  }

  // The node, and one of those that become ready by it; the others go to other threads.
  void runFrom(size_t node) {
    for (bool goesOn = true; goesOn;) {
      runOne(node);
      std::vector<size_t> ready = finishNode(node);
      goesOn = !ready.empty();
      for (size_t i = 1; i < ready.size(); ++i)
        pool().run([self = shared_from_this(), next = ready[i]] { self->runFrom(next); });
      if (goesOn)
        node = ready[0];
    }
  }

  void runOne(size_t node) {
    std::mt19937_64 mine;
    {
      std::lock_guard lock(mutex);
      mine.seed(random());
    }
    pause(mine);
    if (state() != CUDA_SUCCESS)
      return;
    if (CUresult result = nodes[node].work(); result != CUDA_SUCCESS)
      fail(result, "a node of a graph failed");
  }

  std::vector<size_t> finishNode(size_t node) {
    std::vector<size_t> ready;
    std::lock_guard lock(mutex);
    for (size_t follower : followers[node])
      if (--missing[follower] == 0)
        ready.push_back(follower);
    if (++done == nodes.size())
      completion.set();
    return ready;
  }

  const std::vector<Node> &nodes;
  std::mutex mutex;
  std::vector<size_t> missing;
  std::vector<std::vector<size_t>> followers;
  std::mt19937_64 random;
  size_t done = 0;
  Completion completion;
};

// Whether every node is followed, in the end, by what comes behind the tail.
bool isJoined(const Capture &capture, const std::vector<size_t> &tail) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<size_t> open = tail;
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

} // namespace

CUresult run(const std::vector<Node> &nodes, uint64_t seed) {
  if (nodes.empty())
    return CUDA_SUCCESS;
  auto one = std::make_shared<Run>(nodes, seed);
  one->start();
  one->completion.wait();
  return CUDA_SUCCESS;
}

bool forbidsWaiting() { return forbidding > 0; }

CUresult refuseWhileCapturing(CUstream stream) {
  if (!stream->capture)
    return CUDA_SUCCESS;
  stream->capture->isBroken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult beginCapture(CUstream stream, CUstreamCaptureMode mode) {
  if (stream->capture || stream == stream->device->plain)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams = {stream};
  stream->tail.clear();
  forbidding += mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return CUDA_SUCCESS;
}

CUresult endCapture(CUstream stream, CUgraph *graph) {
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->streams[0] != stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  forbidding -= forbidding > 0;
  const bool joined = isJoined(*capture, stream->tail);
  for (CUstream member : capture->streams)
    member->capture = nullptr;
  capture->isOver = true;
  if (capture->isBroken)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined)
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return CUDA_SUCCESS;
}

} // namespace mgc::emulate
