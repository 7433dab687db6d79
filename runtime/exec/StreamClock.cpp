#include "runtime/exec/StreamClock.h"

#include <algorithm>

namespace mgc {

using Kind = Timeline::Kind;
using StepKind = plan::ExpandedStep::Kind;

Result<std::unique_ptr<StreamClock>> StreamClock::make(const plugin::PluginDevice &device, const RankRecord &record,
                                                       Timeline &timeline) {
  std::unique_ptr<StreamClock> clock(new StreamClock(record, timeline));
  size_t events = 2;
  for (const StepRecord &step : record.schedule)
    if (step.step.kind == StepKind::run)
      events += 1 + 2 * static_cast<size_t>(step.endInstruction - step.firstInstruction);
  for (size_t i = 0; i < events; ++i) {
    MGC_ASSIGN(event, device.makeEvent(true));
    clock->events_.push_back(std::move(event));
  }
  return clock;
}

Status StreamClock::stepBegins(const plugin::Stream &stream) {
  next_ = 0;
  begin_ = Timeline::now();
  return mark(stream);
}

Result<int64_t> StreamClock::timeOf(size_t event) const {
  MGC_ASSIGN(milliseconds, plugin::milliseconds(events_[0], events_[event]));
  return begin_ + static_cast<int64_t>(milliseconds * 1e6);
}

// The stream stands still from `begin` until what the run waits for has come. Returns when the run ends.
Result<int64_t> StreamClock::reportRun(int64_t schedule, size_t &event, int64_t begin) {
  const plan::ExpandedStep &step = record_.schedule[schedule].step;
  MGC_ASSIGN(start, timeOf(event++));
  const auto isTransfer = [&](int64_t wait) { return record_.schedule[wait].step.kind != StepKind::run; };
  if (const auto last = std::find_if(step.waits.rbegin(), step.waits.rend(), isTransfer); last != step.waits.rend()) {
    timeline_.openAt(begin, Kind::arrival, *last);
    timeline_.openAt(begin, Kind::wait, *last);
    timeline_.closeAt(start);
    timeline_.closeAt(start);
  }
  timeline_.openAt(start, Kind::chunk, schedule);
  int64_t end = start;
  const StepRecord &run = record_.schedule[schedule];
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i) {
    MGC_ASSIGN(began, timeOf(event++));
    MGC_ASSIGN(ended, timeOf(event++));
    timeline_.openAt(began, Kind::instruction, schedule, i);
    timeline_.closeAt(ended);
    end = ended;
  }
  timeline_.closeAt(end);
  return end;
}

Status StreamClock::report(bool hasFailed) {
  if (hasFailed) // some events were never recorded
    return Status::ok();
  timeline_.openAt(begin_, Kind::step);
  size_t event = 1;
  int64_t time = begin_;
  for (size_t i = 0; i < record_.schedule.size(); ++i)
    if (record_.schedule[i].step.kind == StepKind::run)
      MGC_SET(time, reportRun(static_cast<int64_t>(i), event, time));
  MGC_ASSIGN(end, timeOf(event));
  timeline_.closeAt(end);
  return Status::ok();
}

} // namespace mgc
