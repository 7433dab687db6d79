// The steps that have finished when a step of one stage starts, derived from that stage's list alone.
// In: the steps in list order. Rules: runs of one stream follow each other; a step follows its waits; a send or recv starts
// after the one before it of the same direction and peer has started. Messages from other stages order
// nothing here: no proof assumes anything about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mgc::schedule {

// Steps of a stage at most, but for parts: HappensBefore keeps a bit for each pair of them.
inline constexpr int64_t kMaxSteps = int64_t(1) << 16;
// Parts of a stage's last backwards at most.
inline constexpr int64_t kMaxParts = 1024;

class HappensBefore {
public:
  static constexpr int64_t kCompute = -1, kGradients = -2; // streams of runs
  static int64_t runs(bool ofGradients) { return ofGradients ? kGradients : kCompute; }
  static int64_t messages(int64_t peer, bool isSend) { return 2 * peer + isSend; }

  // The next step of the list; waits name earlier steps. All queries are about the last step appended. `isPaired`: it starts with
  // the run before it, and who follows one of the two follows both.
  void append(int64_t stream, const std::vector<int64_t> &waits, bool isPaired = false);
  void addWait(int64_t step);
  // Whether `step` has completed whenever the last one starts.
  bool completed(int64_t step) const { return done.back()[step / 64] >> (step % 64) & 1; }

private:
  void join(int64_t step);
  void add(int64_t step) { done.back()[step / 64] |= uint64_t(1) << (step % 64); }
  std::vector<int64_t> partner;            // per step: the other run of its pair; -1: none
  std::vector<std::vector<uint64_t>> done; // per step, bits: the steps that have completed when it starts
  struct Last {
    int64_t stream, step;
  };
  std::vector<Last> last; // by stream; a stage has few
};

// Tracks who last wrote each piece of a memory area, and who read it since. Accesses come in list order, and every
// order in HappensBefore follows list order, so checking against the last writer and the readers since covers all
// earlier accesses.
class MemoryTracker {
public:
  struct Segment {
    int64_t begin = 0;
    int64_t writer = -1;          // a step
    std::vector<int64_t> readers; // steps
  };
  // `cuts`: where ranges begin or end, in any order.
  explicit MemoryTracker(std::vector<int64_t> cuts);

  // Calls visit(segment) for each segment that [offset, offset + bytes) meets.
  template <typename Visit> void visit(int64_t offset, int64_t bytes, Visit &&call) {
    for (std::size_t i = find(offset); bytes > 0 && i < segments.size() && segments[i].begin < offset + bytes; ++i)
      call(segments[i]);
  }

private:
  std::size_t find(int64_t offset) const; // the last segment that begins at or before it, else the first
  std::vector<Segment> segments;
};

} // namespace mgc::schedule
