// See WaitPace.h.
#include "runtime/comm/mpi/WaitPace.h"

#include <algorithm>
#include <thread>

namespace mgc {

void WaitPace::pause() {
  const bool wasSpinning = isSpinning();
  if (++spins_ == 1 || wasSpinning != isSpinning())
    since_ = Clock::now();
  if (isSpinning())
    return;
  const auto waited = Clock::now() - since_;
  if (waited < kYielding)
    return std::this_thread::yield();
  std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / kPart, kShortest, kLongest));
}

} // namespace mgc
