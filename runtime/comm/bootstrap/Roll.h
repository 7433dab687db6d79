// Roll: which processes of a run have come, and whether they belong together.
#pragma once

#include "runtime/comm/bootstrap/Store.h"

namespace mgc {

class Roll {
public:
  explicit Roll(const Joining &own) : own_(own), members_(own.run.processes) {}

  // Enters the process, or says why it does not belong here. `own`, rank 0, is whom it is compared with.
  Status enter(const Joining &found);
  bool isComplete() const { return come_ == static_cast<int64_t>(members_.size()); }
  bool hasRank(int64_t rank) const { return rank >= 0 && rank < static_cast<int64_t>(members_.size()); }
  bool hasCome(int64_t rank) const { return hasRank(rank) && !members_[rank].who.empty(); }

  // That it has called, whether it belongs here or not.
  void call(int64_t rank);
  bool haveAllCalled() const { return called_ == static_cast<int64_t>(members_.size()); }

  void finish(int64_t rank);
  bool isFinished(int64_t rank) const { return members_[rank].isFinished; }
  bool haveAllFinished() const { return finished_ == static_cast<int64_t>(members_.size()); }

  int64_t processes() const { return own_.run.processes; }
  const Joining &own() const { return own_; }
  std::string nameOf(int64_t rank) const; // "rank 2 (process 4711 on node1)"
  std::string describeMissing(double seconds) const;

private:
  Status verify(const Joining &found) const;
  struct Member {
    std::string who; // empty: has not come
    bool hasCalled = false, isFinished = false;
  };
  const Joining own_;
  std::vector<Member> members_;
  int64_t called_ = 0, come_ = 0, finished_ = 0;
};

} // namespace mgc
