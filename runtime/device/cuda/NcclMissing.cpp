// In the place of Nccl.cpp where the build had no nccl.h: nothing can be made, so nothing is ever used.
#include "runtime/device/cuda/Internal.h"

namespace mgc::cuda {

namespace {

Status missing() {
  return errorf("NCCL: this build of the plugin has none: configure where CMake finds nccl.h (in the toolkit's "
                "folders, or in MGC_CUDA_WHEELS), or let the ranks share one GPU");
}

} // namespace

Status makeCommId(mgc_device *device, mgc_comm_id *id) { return missing(); }
Status makeComm(mgc_device *device, const mgc_comm_id *id, int64_t ranks, int64_t rank, const mgc_patience *patience,
                mgc_comm **comm) {
  return missing();
}
void dropComm(mgc_comm *comm) {}
void abortComms(mgc_comm *const *comms, int64_t count) {}
Status checkComm(mgc_comm *comm) { return missing(); }
Status allReduce(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                 int64_t elements) {
  return missing();
}
Status allGather(mgc_stream *stream, mgc_comm *comm, mgc_type type, mgc_address to, mgc_address from,
                 int64_t elements) {
  return missing();
}
Status reduceScatter(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to,
                     mgc_address from, int64_t elements) {
  return missing();
}
Status send(mgc_stream *stream, mgc_comm *comm, mgc_address from, int64_t bytes, int64_t peer) { return missing(); }
Status receive(mgc_stream *stream, mgc_comm *comm, mgc_address to, int64_t bytes, int64_t peer) { return missing(); }
Status beginGroup(mgc_device *device) { return missing(); }
Status endGroup(mgc_device *device) { return missing(); }

std::string ncclVersion() { return "no NCCL in this build"; }

} // namespace mgc::cuda
