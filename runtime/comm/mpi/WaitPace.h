// WaitPace: the pauses of a rank that asks again and again whether something has come. At first there are almost none, for most
// waits are short; then it lets others run; then it sleeps, longer and longer.
#pragma once

#include <chrono>

namespace mgc {

class WaitPace {
public:
  // Where ranks have no cores of their own, asking at once would take the time of those that are waited for.
  explicit WaitPace(bool haveOwnCores) : haveOwnCores_(haveOwnCores) { restart(); }
  void restart() { pauses_ = haveOwnCores_ ? 0 : kSpins; }
  bool isSpinning() const { return pauses_ < kSpins; }
  void pause();

private:
  static constexpr int kSpins = 4000, kYields = 200;
  static constexpr std::chrono::microseconds kShortest{20}, kLongest{500};
  const bool haveOwnCores_;
  int pauses_ = 0;
};

} // namespace mgc
