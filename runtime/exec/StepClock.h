// StepClock: is told what a step does when, if a Timeline keeps something of it. The executor calls it in this order as it
// enqueues; what comes before a call on the stream is done then.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/Plugin.h"

namespace mgc {

class StepClock {
public:
  virtual ~StepClock() = default;
  virtual bool beginStep(int64_t step) = 0; // whether it is measured
  virtual Status stepBegins(const plugin::Stream &stream) = 0;
  // `schedule`: index in the rank's schedule. The run's waits are over.
  virtual Status runBegins(const plugin::Stream &stream, int64_t schedule) = 0;
  virtual Status instructionBegins(const plugin::Stream &stream, int64_t schedule, int64_t instruction) = 0;
  virtual Status instructionEnds(const plugin::Stream &stream) = 0;
  virtual Status runEnds() = 0;
  // Around the posting of a transfer, and the wait of the host for its end.
  virtual void transferBegins(int64_t schedule) = 0;
  virtual void arrivalBegins(int64_t schedule) = 0;
  virtual void transferOrArrivalEnds() = 0;
  virtual Status stepEnds(const plugin::Stream &stream) = 0;
  // Into the timeline, after the step; where it has failed, what it was doing has ended.
  virtual Status report(bool hasFailed) = 0;
  virtual WaitObserver *waitObserver() = 0; // observes the hosts' waits; null: none
};

} // namespace mgc
