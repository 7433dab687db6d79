// When a rank's compute stream did what, by timed events; a step of which a Timeline keeps something is measured so.
#pragma once

#include "runtime/exec/StepClock.h"
#include "runtime/exec/Timeline.h"

namespace mgc {

class StreamClock final : public StepClock {
public:
  // `timeline` and `record` outlive it.
  static Result<std::unique_ptr<StreamClock>> make(const plugin::PluginDevice &device, const RankRecord &record,
                                                   Timeline &timeline);
  bool beginStep(int64_t step) override { return timeline_.beginStep(step); }
  Status stepBegins(const plugin::Stream &stream) override;
  Status runBegins(const plugin::Stream &stream, int64_t) override { return mark(stream); }
  Status instructionBegins(const plugin::Stream &stream, int64_t, int64_t) override { return mark(stream); }
  Status instructionEnds(const plugin::Stream &stream) override { return mark(stream); }
  Status runEnds() override { return Status::ok(); }
  void transferBegins(int64_t) override {} // streams wait, not hosts: report() tells of arrivals
  void arrivalBegins(int64_t) override {}
  void transferOrArrivalEnds() override {}
  Status stepEnds(const plugin::Stream &stream) override { return mark(stream); }
  Status report(bool hasFailed) override;
  WaitObserver *waitObserver() override { return nullptr; }

private:
  StreamClock(const RankRecord &record, Timeline &timeline) : record_(record), timeline_(timeline) {}
  Status mark(const plugin::Stream &stream) { return stream.record(events_[next_++]); }
  Result<int64_t> timeOf(size_t event) const; // ns of the steady clock
  Result<int64_t> reportRun(int64_t schedule, size_t &event, int64_t begin);

  const RankRecord &record_;
  Timeline &timeline_;
  std::vector<plugin::Event> events_; // in the order in which they are recorded
  size_t next_ = 0;
  int64_t begin_ = 0;
};

} // namespace mgc
