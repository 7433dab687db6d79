// Streams as threads, events, and graphs: what was captured, done again by threads of its own. Before each thing it
// does a stream may pause at random, so that a missing wait shows as another result.
#pragma once

#include "test/runtime/device/host_plugin/HostDevice.h"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace mgc::test {

using Work = std::function<Status()>;

// One recording of an event.
class Signal {
public:
  void set();
  void wait();
  bool isSet() const;
  std::chrono::steady_clock::time_point time() const { return time_; } // once set

private:
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  bool set_ = false;
  std::chrono::steady_clock::time_point time_;
};
using SignalPointer = std::shared_ptr<Signal>;

struct Operation {
  Work work;            // else one of these two:
  SignalPointer record; // sets it
  SignalPointer wait;
};

class HostStream;

// Operations given to streams while one of them captured. `clocks` says for each stream up to where each other one is
// known to be done.
struct Capture {
  using Clock = std::map<const HostStream *, size_t>;
  std::map<HostStream *, std::vector<Operation>> operations;
  std::map<const HostStream *, Clock> clocks;
  HostStream *origin = nullptr;
  bool isEnded = false;
};

struct HostEvent {
  SignalPointer last; // null: never recorded
  std::shared_ptr<Capture> capture;
  Capture::Clock clock; // where it was recorded in the capture
};

struct HostGraph {
  std::vector<std::vector<Operation>> lists; // by stream
};

class HostStream {
public:
  explicit HostStream(HostDevice &device);
  ~HostStream(); // after all that it was given
  HostDevice &device() const { return device_; }
  Status submit(Work work);
  Status record(HostEvent &event);
  Status wait(const HostEvent &event);
  Status synchronize(int64_t milliseconds);
  Status beginCapture();
  Result<std::unique_ptr<HostGraph>> endCapture();
  Status launch(const HostGraph &graph);

private:
  void main();
  void add(Operation operation);

  HostDevice &device_;
  const uint64_t number_;
  std::shared_ptr<Capture> capture_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Operation> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

} // namespace mgc::test
