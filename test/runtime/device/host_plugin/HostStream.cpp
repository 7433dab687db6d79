#include "test/runtime/device/host_plugin/HostStream.h"

#include <algorithm>

namespace mgc::test {

namespace {

std::atomic<uint64_t> nextNumber{1};

// Pauses of one thread, from the seed and the thread's number.
class Pauses {
public:
  explicit Pauses(uint64_t number) {
    const std::lock_guard lock(controls().mutex);
    state_ = controls().seed == 0 ? 0 : controls().seed * 0x9E3779B97F4A7C15u ^ number << 32;
  }
  void take() {
    if (state_ == 0)
      return;
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    if (state_ % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(state_ / 4 % uint64_t(controls().longestPause)));
  }

private:
  uint64_t state_ = 0;
};

// Waits and records are done on a broken device too: nothing hangs.
void perform(HostDevice &device, const Operation &operation) {
  if (operation.wait)
    operation.wait->wait();
  if (operation.work && device.check().isOk())
    if (const Status status = operation.work(); !status.isOk())
      device.fail(status);
  if (operation.record)
    operation.record->set();
}

} // namespace

void Signal::set() {
  std::lock_guard lock(mutex_);
  set_ = true;
  time_ = std::chrono::steady_clock::now();
  condition_.notify_all();
}

void Signal::wait() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return set_; });
}

bool Signal::isSet() const {
  std::lock_guard lock(mutex_);
  return set_;
}

HostStream::HostStream(HostDevice &device) : device_(device), number_(nextNumber++), thread_([this] { main(); }) {}

HostStream::~HostStream() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  condition_.notify_all();
  thread_.join();
}

void HostStream::main() {
  Pauses pauses(number_);
  std::unique_lock lock(mutex_);
  while (true) {
    busy_ = false;
    condition_.notify_all();
    condition_.wait(lock, [&] { return !queue_.empty() || ending_; });
    if (queue_.empty())
      return;
    const Operation operation = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    pauses.take();
    perform(device_, operation);
    lock.lock();
  }
}

void HostStream::add(Operation operation) {
  if (capture_) {
    std::vector<Operation> &mine = capture_->operations[this];
    mine.push_back(std::move(operation));
    capture_->clocks[this][this] = mine.size();
    return;
  }
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(operation));
  condition_.notify_all();
}

Status HostStream::submit(Work work) {
  if (!capture_)
    MGC_TRY(device_.check());
  add({std::move(work), nullptr, nullptr});
  return Status::ok();
}

Status HostStream::record(HostEvent &event) {
  event.last = std::make_shared<Signal>();
  event.capture = capture_;
  add({nullptr, event.last, nullptr});
  if (capture_)
    event.clock = capture_->clocks[this];
  return Status::ok();
}

Status HostStream::wait(const HostEvent &event) {
  if (!event.last)
    return Status::ok();
  if (event.capture && (event.capture->isEnded || (capture_ && capture_ != event.capture)))
    return errorf("a wait for an event of another capture");
  if (capture_ && !event.capture)
    return errorf("a capturing stream waits for an event that was recorded outside of the capture");
  if (event.capture)
    capture_ = event.capture;
  add({nullptr, nullptr, event.last});
  if (capture_)
    for (const auto &[stream, count] : event.clock)
      capture_->clocks[this][stream] = std::max(capture_->clocks[this][stream], count);
  return Status::ok();
}

Status HostStream::synchronize(int64_t milliseconds) {
  if (capture_)
    return errorf("a capturing stream cannot be waited for");
  std::unique_lock lock(mutex_);
  const auto isDone = [&] { return queue_.empty() && !busy_; };
  if (milliseconds < 0)
    condition_.wait(lock, isDone);
  else if (!condition_.wait_for(lock, std::chrono::milliseconds(milliseconds), isDone))
    return errorf("the stream is not done after {} ms", milliseconds);
  return device_.check();
}

Status HostStream::beginCapture() {
  if (capture_)
    return errorf("the stream captures already");
  capture_ = std::make_shared<Capture>();
  capture_->origin = this;
  return Status::ok();
}

Result<std::unique_ptr<HostGraph>> HostStream::endCapture() {
  if (!capture_ || capture_->origin != this)
    return errorf("the stream has begun no capture");
  const std::shared_ptr<Capture> capture = capture_;
  capture->isEnded = true;
  for (auto &[stream, operations] : capture->operations)
    stream->capture_ = nullptr;
  capture_ = nullptr;
  auto graph = std::make_unique<HostGraph>();
  for (auto &[stream, operations] : capture->operations) {
    if (capture->clocks[this][stream] < operations.size())
      return errorf("the capture of a stream is not joined to the one that began");
    graph->lists.push_back(std::move(operations));
  }
  return graph;
}

// Each launch has signals of its own.
Status HostStream::launch(const HostGraph &graph) {
  ++controls().launchedGraphs;
  return submit([this, &graph]() -> Status {
    std::map<SignalPointer, SignalPointer> fresh;
    const auto freshOf = [&](const SignalPointer &signal) {
      SignalPointer &own = fresh[signal];
      return own ? own : own = std::make_shared<Signal>();
    };
    std::vector<std::vector<Operation>> lists = graph.lists;
    for (std::vector<Operation> &list : lists)
      for (Operation &operation : list)
        for (SignalPointer *signal : {&operation.record, &operation.wait})
          if (*signal)
            *signal = freshOf(*signal);
    std::vector<std::thread> threads;
    for (const std::vector<Operation> &list : lists)
      threads.emplace_back([&, number = nextNumber++] {
        Pauses pauses(number);
        for (const Operation &operation : list) {
          pauses.take();
          perform(device_, operation);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return device_.check();
  });
}

} // namespace mgc::test
