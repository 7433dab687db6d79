// Timeline: what one rank did when. The rank's executor opens and closes spans, one inside the other, and the
// communicator says when the rank waits:
//
//     step ------------------------------------------------------------------
//       chunk ------------------------------------  transfer --  arrival ----
//         instruction --  instruction -------------               wait ----
//                           wait --     wait ---
//
// Kept are the spans of the traced steps, and of all measured steps sums per instruction. All memory is taken
// and touched when it is made: a step allocates nothing. Used by one thread at a time.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/exec/Records.h"

#include <array>
#include <memory>
#include <span>

namespace mgc {

struct TimelineOptions {
  int64_t traceFirst = 0, traceSteps = 0; // the steps whose spans are kept
  int64_t measureFirst = 0;               // sums are of the steps from this one on
  bool trace() const { return traceSteps > 0; }
  bool measure = false;
  int64_t measureEvery = 1; // only steps whose number is a multiple of it
  bool measures(int64_t step) const { return measure && step >= measureFirst && step % measureEvery == 0; }
};

class Timeline final : public WaitObserver {
public:
  enum class Kind : uint8_t {
    step,
    chunk,       // a run of the schedule
    instruction, // an instruction of a chunk
    transfer,    // the posting of a send or receive; the end that comes second moves the bytes
    arrival,     // the end of a send or receive: until the bytes have moved
    wait,        // for another rank
  };
  static constexpr size_t kKinds = 6;

  struct Record {
    Kind kind{};
    int32_t step = 0;                        // training step
    int32_t schedule = -1, instruction = -1; // indices, -1: none; a wait has those of the span around it
    int64_t begin = 0, end = 0;              // ns of the steady clock
  };
  // Sums over spans; `own` is without the spans inside them, of which `waits` were waits.
  struct Sum {
    int64_t count = 0, own = 0, waits = 0; // ns
  };

  // An error when there is no memory for the spans.
  static Result<std::unique_ptr<Timeline>> create(const RankRecord &record, const TimelineOptions &options);

  // Whether anything of this step is kept.
  bool beginStep(int64_t step);
  void open(Kind kind, int64_t schedule, int64_t instruction) { openAt(now(), kind, schedule, instruction); }
  void close() { closeAt(now()); }
  void closeAll() {
    while (depth_ > 0)
      close();
  }
  // The same of what was measured elsewhere, in the order of time.
  void openAt(int64_t time, Kind kind, int64_t schedule = -1, int64_t instruction = -1);
  void closeAt(int64_t time);
  static int64_t now(); // ns of the steady clock
  void waitBegins() override { open(Kind::wait, top().schedule, top().instruction); }
  void waitEnds() override { close(); }

  std::span<const Record> records() const { return {records_.data(), recorded_}; } // by their begin
  const Sum &sumOf(Kind kind) const { return sums_[static_cast<size_t>(kind)]; }
  const Sum &sumOf(int64_t chunk, int64_t instruction) const { return instructionSums_[firstOf_[chunk] + instruction]; }

private:
  Timeline(const RankRecord &record, const TimelineOptions &options);
  struct Open {
    Kind kind{};
    int32_t schedule = -1, instruction = -1;
    int64_t begin = 0, inside = 0, waits = 0; // ns; of the spans that have closed in it
    bool isTraced = false;
    size_t record = 0;
  };
  const Open &top() const { return open_[depth_ > 0 ? depth_ - 1 : 0]; }
  void add(const Open &span, int64_t duration);

  const RankRecord &record_;
  const TimelineOptions options_;
  int64_t step_ = 0;
  bool tracing_ = false, measuring_ = false; // this step
  std::array<Open, kKinds> open_;            // none is inside one of its kind
  size_t depth_ = 0;
  std::vector<Record> records_;
  size_t recorded_ = 0;
  std::array<Sum, kKinds> sums_{};
  std::vector<int64_t> firstOf_; // by chunk, in instructionSums_
  std::vector<Sum> instructionSums_;
};

} // namespace mgc
