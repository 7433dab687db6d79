// NCCL's part of the stand-in: ranks are devices of one process that find each other by the id.
#pragma once

#include "test/runtime/device/host_plugin/HostStream.h"

#include <span>

namespace mgc::test {

// to = reduction of the sources in their order. For combine too.
Status reduce(mgc_reduce reduce, mgc_type type, std::byte *to, std::span<const std::byte *const> sources,
              int64_t elements);
int64_t bytesOf(mgc_type type);

struct CommGroup;

class HostComm {
public:
  HostComm(HostDevice &device, const mgc_comm_id &id, int64_t ranks, int64_t rank);
  ~HostComm();
  Status allReduce(HostStream &stream, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                   int64_t elements);
  Status allGather(HostStream &stream, mgc_type type, mgc_address to, mgc_address from, int64_t elements);
  Status reduceScatter(HostStream &stream, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                       int64_t elements);
  Status send(HostStream &stream, mgc_address from, int64_t bytes, int64_t peer);
  Status receive(HostStream &stream, mgc_address to, int64_t bytes, int64_t peer);
  void abort();
  Status check() const;

  static Result<mgc_comm_id> makeId();
  static Status beginGroup();
  static Status endGroup(); // submits the operations that the calling thread has grouped

private:
  struct Ends { // one rank's buffers
    std::byte *to = nullptr, *from = nullptr;
  };
  using All = std::function<Status(const std::vector<Ends> &)>; // by rank, once all have come
  Status collective(HostStream &stream, mgc_address to, int64_t toBytes, mgc_address from, int64_t fromBytes, All all);
  Status meet(uint64_t number, Ends mine, const All &all);

  HostDevice &device_;
  const std::shared_ptr<CommGroup> group_;
  const int64_t ranks_, rank_;
  uint64_t next_ = 0;
  friend struct CommGroup;
};

} // namespace mgc::test
