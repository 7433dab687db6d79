// Streams, events and graphs. A stream is a thread that runs its operations in order, each after a pause of random length where the
// settings ask for it, so that an event that nobody waits for shows.
#pragma once

#include "test/emulate/cuda/driver/Device.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <random>
#include <thread>

namespace mgc::emulate {

// Something that happens once.
class Completion {
public:
  void set();
  bool isSet();
  void wait();
  std::chrono::steady_clock::time_point when(); // time at which it happened

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool isSet_ = false;
  std::chrono::steady_clock::time_point when_;
};

struct Node {
  Work work;
  std::vector<size_t> after; // indices of nodes
};

// The operations captured so far. The streams of a capture share the operations.
struct Capture {
  std::mutex mutex;
  std::vector<Node> nodes;
  std::vector<CUstream> streams; // the first one began it
  bool isBroken = false;         // by a call that a capture does not allow
  bool isOver = false;
};

CUstream makeStream(CUctx_st &device);
void dropStream(CUstream stream);
// The stream that a handle means: 0 is the device's plain one.
CUstream resolve(CUstream stream);
// To the end of the stream, captured or not.
CUresult enqueue(CUstream stream, Work work);
// Behind what is on the stream now, not captured.
std::shared_ptr<Completion> finish(CUstream stream);
bool isIdle(CUstream stream);
void finishAll(CUctx_st &device);

CUresult record(CUevent event, CUstream stream);
CUresult await(CUstream stream, CUevent event);

// This thread is between the begin and the end of a capture that forbids calls which could wait for the device.
bool forbidsWaiting();
CUresult refuseWhileCapturing(CUstream stream); // an error, and a broken capture, when the stream is being captured

CUresult beginCapture(CUstream stream, CUstreamCaptureMode mode);
CUresult endCapture(CUstream stream, CUgraph *graph);
// Runs the nodes, each as soon as those before it are done, at the same time where the graph allows.
CUresult run(const std::vector<Node> &nodes, uint64_t seed);

// A pause of random length.
void pause(std::mt19937_64 &random);

} // namespace mgc::emulate

struct CUstream_st {
  CUctx_st *device = nullptr;
  int priority = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<mgc::emulate::Work> queue;
  bool isDropped = false;
  bool isBusy = false;
  std::mt19937_64 random;
  std::shared_ptr<mgc::emulate::Capture> capture;
  std::vector<size_t> tail; // nodes that the next one follows
};

struct CUevent_st {
  bool isTimed = true;
  std::mutex mutex;
  std::shared_ptr<mgc::emulate::Completion> last; // null: not recorded yet
  std::shared_ptr<mgc::emulate::Capture> capture; // capture of the last record, if it was captured
  std::vector<size_t> tail;
};

struct CUgraph_st {
  std::vector<mgc::emulate::Node> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<mgc::emulate::Node>> nodes;
};
