// Communicator: one rank's way to the others. The inputs are buffers of this rank; the output is the
// same data as plan::Collective and plan::ScheduleStep define it.
//
// Used by one thread: the rank's. abort() alone may be called by any thread. Every wait has a deadline, and
// ends early when some rank aborts. After an error the world is of no more use: only abort() and cause() make
// sense.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace mgc {

using GroupId = int64_t;
using Ticket = int64_t; // of a posted transfer; given back by wait()

// One end of a transfer between two ranks. Per ordered pair of ranks, sends and receives match in the order
// in which they are posted; both ends must name the same value, microbatch and size.
struct Transfer {
  int64_t peer = -1;
  int64_t value = -1;
  int64_t microbatch = -1;
  void *data = nullptr; // read by a send, written by a receive, from the post to the end of wait()
  int64_t bytes = 0;
};

// Called again and again by a rank while it waits, so that it can post what has become ready.
class Progress {
public:
  virtual ~Progress() = default;
  virtual Status progress() = 0; // must not wait
};

// Told when a rank begins and ends to wait for another, on the rank's thread.
class WaitObserver {
public:
  // Waits of one collective or barrier, for which an observer must have room.
  static constexpr int64_t kMost = 2;
  virtual ~WaitObserver() = default;
  virtual void waitBegins() = 0;
  virtual void waitEnds() = 0;
};

// The place of `rank` in a group; an error unless the group's ranks are of the world, each once, and `rank` is one.
Result<int64_t> indexInGroup(const std::vector<int64_t> &ranks, int64_t rank, int64_t worldSize);

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t worldSize() const = 0;

  // At load time. Every member opens the group with the same list, in which it stands once; its place there
  // is its index in the collectives.
  virtual Result<GroupId> openGroup(const std::vector<int64_t> &ranks) = 0;
  // At load time: how many transfers are pending at once. More is possible, but allocates.
  virtual void reserveTransfers(int64_t count) = 0;
  virtual void setProgress(Progress *progress) = 0;         // null: none
  virtual void setWaitObserver(WaitObserver *observer) = 0; // null: none

  // Reads `source`, writes `destination`; returns when this rank's result is there and its source may change
  // again. `what.axes` and `what.stages` are not looked at: the group stands for them. All ranks get equal
  // bits from a reduction, which adds up in the order of the group.
  virtual Status collective(GroupId group, const plan::Collective &what, const void *source,
                            void *destination) = 0;
  virtual Status barrier(GroupId group) = 0;

  virtual Result<Ticket> send(const Transfer &transfer) = 0;
  virtual Result<Ticket> receive(const Transfer &transfer) = 0;
  virtual Result<bool> isDone(Ticket ticket) = 0; // an error when the transfer failed
  virtual Status wait(Ticket ticket) = 0;

  // Ends all waits of all ranks. The first cause given is the one kept.
  virtual void abort(const Status &cause) = 0;
  virtual bool isAborted() const = 0;
  virtual Status cause() const = 0; // ok unless aborted
};

} // namespace mgc
