// See Heartbeat.h.
#include "tools/watch/Heartbeat.h"

#include <system_error>
#include <utility>

namespace mgc::tools {

Heartbeat::~Heartbeat() {
  {
    const auto lock = quiet();
    isOver_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void Heartbeat::start(std::function<void()> beat) {
  if (thread_.joinable())
    return;
  try {
    thread_ = std::thread([this, beat = std::move(beat)] { run(beat); });
  } catch (const std::system_error &) {
  }
}

void Heartbeat::run(const std::function<void()> &beat) {
  auto lock = quiet();
  while (!wake_.wait_until(lock, last_ + interval_, [this] { return isOver_; })) {
    if (Clock::now() < last_ + interval_)
      continue;
    beat();
    restart();
  }
}

} // namespace mgc::tools
