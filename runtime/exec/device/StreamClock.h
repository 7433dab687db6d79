// When a rank's compute stream did what, by timed events; a step of which a Timeline keeps something is measured so.
#pragma once

#include "runtime/device/Plugin.h"
#include "runtime/exec/Timeline.h"

namespace mgc {

class StreamClock {
public:
  // `timeline` and `record` outlive it.
  static Result<std::unique_ptr<StreamClock>> make(const plugin::PluginDevice &device,
                                                   const RankRecord &record, Timeline &timeline);
  bool beginStep(int64_t step) { return timeline_.beginStep(step); } // whether it is measured

  // Called as the step is enqueued, in this order: what comes before it on the stream is done then.
  Status stepBegins(const plugin::Stream &stream);
  Status runBegins(const plugin::Stream &stream) { return mark(stream); } // what it waited for has come
  Status instructionBegins(const plugin::Stream &stream) { return mark(stream); }
  Status instructionEnds(const plugin::Stream &stream) { return mark(stream); }
  Status stepEnds(const plugin::Stream &stream) { return mark(stream); }
  Status report(); // into the timeline; the step is done

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
