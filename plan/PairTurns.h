// The order in which the instructions of two runs that are a pair (ScheduleStep) are enqueued on the one stream of a
// device. Each run is cut into turns, which end where it would wait for an exchange of rows; during the exchange the
// other run has its turn:
//
//   forward   before | experts | combine, next layer ..        backward  shared | dx, dw | ..
//   stream    before   shared   experts   dx, dw   combine ..
//             exchange|.........|     exchange|....|
//
// The runtime enqueues this order, and the cost of a step is counted in it.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::plan {

// Interleaves `first` steps of one run with `second` of another, both evenly spread. False: the first run's turn.
inline std::vector<bool> pairTurns(int64_t first, int64_t second) {
  std::vector<bool> order;
  for (int64_t i = 0, j = 0; i < first || j < second;) {
    // Turn i of n stands at (2 i + 1) / 2 n of the whole.
    const bool isSecond = i == first || (j < second && (2 * j + 1) * first < (2 * i + 1) * second);
    order.push_back(isSecond);
    ++(isSecond ? j : i);
  }
  return order;
}

} // namespace mgc::plan
