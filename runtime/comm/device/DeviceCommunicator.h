// DeviceCommunicator: one device rank's way to the others. It does not wait for the device: it enqueues on streams what
// does the work, and what is enqueued on the stream afterwards, or waits for the event, comes after it. Sources and
// destinations are as in Communicator.h.
//
// Used by one thread: the rank's. abort() alone may be called by any thread. Every wait of the host has a deadline, and
// ends early when some rank aborts. After an error only abort() and cause() make sense.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/Plugin.h"

namespace mgc {

// As Transfer, in a device's memory.
struct DeviceTransfer {
  int64_t peer = -1, value = -1, microbatch = -1;
  mgc_address address = 0;
  int64_t bytes = 0;
};

class DeviceCommunicator {
public:
  virtual ~DeviceCommunicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t worldSize() const = 0;
  // At load time. Every member opens the group.
  virtual Result<GroupId> openGroup(const std::vector<int64_t> &ranks) = 0;
  // At load time. Both ends open the way from one rank to the other; transfers on it match in order.
  virtual Status openTransfers(int64_t peer, bool isSend) = 0;
  // At load time, after all ranks have opened what they use: before the first use.
  virtual Status connect() = 0;
  virtual void
  setProgress(Progress *progress) = 0; // called while the host waits for another rank; null: none

  // When the stream has done it, this rank's result is there and its source may change again. `workspace`: of
  // what.workspaceBytes.
  virtual Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what,
                            mgc_address source, mgc_address destination, mgc_address workspace) = 0;
  // `mine` is this end's own event, which nothing else uses until the transfer is finished and waited for.
  virtual Result<Ticket> send(const plugin::Stream &stream, const DeviceTransfer &transfer,
                              const plugin::Event &mine) = 0;
  virtual Result<Ticket> receive(const plugin::Stream &stream, const DeviceTransfer &transfer,
                                 const plugin::Event &mine) = 0;
  // The event that is recorded when the transfer is done; null: the other end has not come yet. Both ends need it to be called,
  // or finish(): a receive goes on in it.
  virtual Result<const plugin::Event *> poll(Ticket ticket) = 0;
  virtual Result<const plugin::Event *>
  finish(Ticket ticket) = 0; // the same; the host waits for the other end, and gives the ticket back

  virtual Status barrier() = 0; // the hosts of all ranks meet
  virtual void abort(const Status &cause) = 0;
  virtual bool isAborted() const = 0;
  virtual Status cause() const = 0; // ok unless aborted
  virtual Status check() = 0;       // whether what was enqueued has failed, or some rank has aborted
};

} // namespace mgc
