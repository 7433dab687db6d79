// See RankMemory.h.
#include "runtime/checkpoint/RankMemory.h"

namespace mgc {

static constexpr int64_t kFetched = -2; // in the place of a transfer's value: no plan has it

RankMemory::RankMemory(Arenas arenas, Communicator *communicator) : arenas_(arenas), communicator_(communicator) {
  if (communicator_)
    communicator_->setWaitObserver(nullptr); // these waits are of no step
}

Result<const std::byte *> RankMemory::fetch(int64_t rank, const std::byte *data, int64_t bytes,
                                            std::vector<std::byte> &scratch) {
  const std::byte *nothing = nullptr;
  const int64_t number = fetched_++;
  if (isWriter() && isHere(rank))
    return data;
  if (!isWriter() && !isHere(rank))
    return nothing;
  Transfer transfer{isWriter() ? rank : 0, kFetched, number, addressOf(data), bytes};
  if (isWriter()) {
    scratch.resize(bytes);
    transfer.data = addressOf(scratch.data());
  }
  MGC_ASSIGN(ticket, isWriter() ? communicator_->receive(transfer) : communicator_->send(transfer));
  MGC_TRY(communicator_->wait(ticket));
  return isWriter() ? scratch.data() : nothing;
}

} // namespace mgc
