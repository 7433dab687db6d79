// Communicator: one rank's connections to the others. The inputs are buffers of this rank; the output is the same data
// as plan::Collective and plan::ScheduleStep define it. Work is given to a stream of the rank's device, and what is
// given to the stream afterwards, or waits for the event, comes after it. On the host, work is done when the call
// returns.
//
// Used by one thread: the rank's. Any may call abort(), and others concurrentCollective() and
// concurrentExchangeRows(). Every wait for another rank has a deadline, and ends early when some rank aborts. After an error the
// world is of no more use: only abort() and cause() make sense.
#pragma once

#include "plan/instructions/Instruction.h"
#include "runtime/base/Status.h"
#include "runtime/device/Plugin.h"
#include "runtime/random/Philox.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mgc {

using GroupId = int64_t;
using Ticket = int64_t; // a posted transfer; finish() releases it

// A wait for a device looks at this interval whether the other ranks still live.
constexpr std::chrono::milliseconds kLivenessInterval{100};

// One end of a transfer between two ranks. Per ordered pair of ranks, sends and receives match in the order
// in which they are posted; both ends must name the same value, microbatch and size.
struct Transfer {
  int64_t peer = -1;
  int64_t value = -1;
  int64_t microbatch = -1;
  mgc_address data = 0; // read by a send, written by a receive, until the transfer's event
  int64_t bytes = 0;
};

// An exchange's buffers. `sameCounts`: an exchange of the group before had these counts, and nothing has written them since: who
// has read them then need not again.
struct RowBuffers {
  mgc_address counts = 0, source = 0, destination = 0;
  bool sameCounts = false;
};

// Address of host memory.
inline mgc_address addressOf(const void *data) { return reinterpret_cast<mgc_address>(data); }

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

  // --- At load time.
  // Every member opens the group with the same list, in which it stands once; its place there is its index in the
  // collectives. Groups of one list and different colors are separate where ranks have concurrent collectives: each may
  // be in use at once.
  virtual Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color = 0) = 0;
  // Both ends open the channel from one rank to the other; its transfers match in order.
  virtual Status openTransfers(int64_t /*peer*/, bool /*isSend*/) { return Status::ok(); }
  // How many transfers are pending at once. More is possible, but allocates.
  virtual void reserveTransfers(int64_t /*count*/) {}
  // After all ranks have opened what they use: before the first use.
  virtual Status connect() { return Status::ok(); }

  virtual void setProgress(Progress *progress) = 0;         // null: none
  virtual void setWaitObserver(WaitObserver *observer) = 0; // for ranks on the host; null: none

  // Reads `source`, writes `destination`: when the stream has done it, this rank's result is there and its source may
  // change again. `what.axes` and `what.stages` are not read: the group replaces them. All ranks get equal bits from a
  // reduction, which adds up in the order of the group. `workspace`: of what.workspaceBytes.
  virtual Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what,
                            mgc_address source, mgc_address destination, mgc_address workspace) = 0;
  // The same of ranks on the host.
  Status collective(GroupId group, const plan::Collective &what, const void *source, void *destination) {
    return collective(plugin::Stream(), group, what, addressOf(source), addressOf(destination), 0);
  }
  // Reads counts and source, writes the destination, as `collective`. An error names the rank whose counts are wrong; then nothing
  // has moved. It may come from the device, which has failed then. The host may wait for the stream to come to the counts.
  virtual Status exchangeRows(const plugin::Stream &stream, GroupId group, const plan::ExchangeRows &what,
                              const RowBuffers &rows) = 0;
  // Called by a thread other than the rank's: it makes no progress, and no observer is told. Several may be in
  // progress, each of another group. Without such threads, the rank's thread does everything.
  virtual bool hasConcurrentCollectives() const { return false; }
  virtual Status concurrentCollective(GroupId, const plan::Collective &, mgc_address /*source*/,
                                      mgc_address /*destination*/) {
    return errorf("the ranks' own threads alone make collectives here");
  }
  virtual Status concurrentExchangeRows(GroupId, const plan::ExchangeRows &, const RowBuffers &) {
    return errorf("the ranks' own threads alone exchange rows here");
  }
  // The rank's thread sleeps, with its progress, until isDone(), which another thread of this process makes true before it
  // calls wake(). It has no deadline: the waits of that thread have theirs.
  virtual Status await(const std::function<bool()> &isDone) {
    return isDone() ? Status::ok() : errorf("no other thread works for this rank");
  }
  virtual void wake() {}
  virtual Status barrier(GroupId group) = 0; // the hosts of its ranks meet

  // `mine` is this end's own event, which nothing else uses until the transfer is finished and waited for.
  virtual Result<Ticket> send(const plugin::Stream &stream, const Transfer &transfer, const plugin::Event &mine) = 0;
  virtual Result<Ticket> receive(const plugin::Stream &stream, const Transfer &transfer, const plugin::Event &mine) = 0;
  // The same of ranks on the host.
  Result<Ticket> send(const Transfer &transfer) { return send(plugin::Stream(), transfer, kNoEvent); }
  Result<Ticket> receive(const Transfer &transfer) { return receive(plugin::Stream(), transfer, kNoEvent); }
  // The event of the transfer's end; null: the other end has not come yet. An error when the transfer failed. Both ends need
  // it to be called, or finish(): a receive may go on in it.
  virtual Result<const plugin::Event *> poll(Ticket ticket) = 0;
  // The same; the host waits for the other end, and gives the ticket back.
  virtual Result<const plugin::Event *> finish(Ticket ticket) = 0;

  // For ranks on the host: the bytes have moved.
  Status wait(Ticket ticket) { return finish(ticket).status(); }

  // Ends all waits of all ranks. The first cause given is the one kept.
  virtual void abort(const Status &cause) = 0;
  virtual bool isAborted() const = 0;
  virtual Status cause() const = 0; // ok unless aborted
  // Whether what was enqueued has failed, or some rank has aborted.
  virtual Status check() { return isAborted() ? cause() : Status::ok(); }

private:
  static inline const plugin::Event kNoEvent;
};

// A name of a group for keys: short, however many ranks it has.
inline std::string nameOf(const std::vector<int64_t> &ranks) {
  return fmt::format("{} ranks from {} to {} ({:016x})", ranks.size(), ranks.front(), ranks.back(),
                     hashName({reinterpret_cast<const char *>(ranks.data()), ranks.size() * sizeof(int64_t)}));
}

} // namespace mgc
