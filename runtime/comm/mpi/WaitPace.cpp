// See WaitPace.h.
#include "runtime/comm/mpi/WaitPace.h"

#include <algorithm>
#include <thread>

namespace mgc {

void WaitPace::pause() {
  ++pauses_;
  if (isSpinning())
    return;
  if (pauses_ < kSpins + kYields)
    return std::this_thread::yield();
  std::this_thread::sleep_for(std::min(kShortest * (pauses_ - kSpins - kYields + 1), kLongest));
}

} // namespace mgc
