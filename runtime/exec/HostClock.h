// The clock of a rank on the host, where work is done as it is given: the timeline is told at once.
#pragma once

#include "runtime/exec/StepClock.h"
#include "runtime/exec/Timeline.h"

namespace mgc {

class HostClock final : public StepClock {
public:
  explicit HostClock(Timeline &timeline) : timeline_(timeline) {} // the timeline outlives it
  bool beginStep(int64_t step) override { return timeline_.beginStep(step); }
  Status stepBegins(const plugin::Stream &) override { return open(Timeline::Kind::step); }
  Status runBegins(const plugin::Stream &, int64_t schedule) override { return open(Timeline::Kind::chunk, schedule); }
  Status instructionBegins(const plugin::Stream &, int64_t schedule, int64_t instruction) override {
    return open(Timeline::Kind::instruction, schedule, instruction);
  }
  Status instructionEnds(const plugin::Stream &) override { return close(); }
  Status runEnds() override { return close(); }
  void transferBegins(int64_t schedule) override { (void)open(Timeline::Kind::transfer, schedule); }
  void arrivalBegins(int64_t schedule) override { (void)open(Timeline::Kind::arrival, schedule); }
  void transferOrArrivalEnds() override { (void)close(); }
  Status stepEnds(const plugin::Stream &) override { return close(); }
  Status report(bool hasFailed) override {
    if (hasFailed)
      timeline_.closeAll();
    return Status::ok();
  }
  WaitObserver *waitObserver() override { return &timeline_; }

private:
  Status open(Timeline::Kind kind, int64_t schedule = -1, int64_t instruction = -1) {
    timeline_.open(kind, schedule, instruction);
    return Status::ok();
  }
  Status close() {
    timeline_.close();
    return Status::ok();
  }
  Timeline &timeline_;
};

} // namespace mgc
