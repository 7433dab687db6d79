// WaitPace: the pauses of a rank that asks again and again whether something has come. At first there are almost none, for most
// waits are short; then it lets others run; then it sleeps, for a part of the time that it has waited so far.
#pragma once

#include <chrono>

namespace mgc {

class WaitPace {
public:
  // Where ranks have no cores of their own, asking at once would take the time of those that are waited for.
  explicit WaitPace(bool haveOwnCores) : haveOwnCores_(haveOwnCores) {}
  void restart() { spins_ = 0; }
  bool isSpinning() const { return haveOwnCores_ && spins_ < kSpins; }
  void pause();

private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kSpins = 4000;
  static constexpr std::chrono::microseconds kYielding{100}, kShortest{10}, kLongest{500};
  static constexpr int kPart = 8; // sleeps for this part of the time waited
  const bool haveOwnCores_;
  int spins_ = 0;
  Clock::time_point since_ = Clock::now();
};

} // namespace mgc
