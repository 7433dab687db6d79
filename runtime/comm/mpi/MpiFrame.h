// Frames: the messages of MPI ranks that are no data of their own. For runtime/comm only.
//
//     rank 0: send     rank 1: receive          rank 0: collective     rank 1: collective
//                <- want                                     enter ->
//                data ->                                  <- enter
//                                                            terms ->
//                                                         <- terms
//
// The `enter` of a small collective has the data, and no terms follow. Data is sent when its receiver has room for it: a receive has
// announced itself, the members of a collective have entered it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mgc {

// The most data in a frame; with its header every MPI sends it at once.
inline constexpr int64_t kInlineBytes = 3072;

using MpiFields = std::array<int64_t, 11>;

struct MpiFrame {
  enum class Kind : int64_t {
    enter,   // a collective or barrier: group, meeting, Agreement
    want,    // a transfer: value, microbatch, bytes, ticket of the receive
    mismatch // in the place of the data of a transfer: the same of what is sent, and that ticket
  } kind = Kind::enter;
  MpiFields fields{};
  int64_t bytes = 0; // size of `data`
  std::array<std::byte, kInlineBytes> data;

  static constexpr int64_t kHeaderBytes = int64_t(sizeof(Kind) + sizeof(MpiFields) + sizeof(int64_t));
  int64_t wholeBytes() const { return kHeaderBytes + bytes; }
};
static_assert(offsetof(MpiFrame, data) == MpiFrame::kHeaderBytes);

enum MpiTag : int32_t { frameTag, transferTag, termsTag, sumsTag };

} // namespace mgc
