// The messages between a process and the store: docs/processes.md, Store. For runtime/comm only.
#pragma once

#include "runtime/comm/tcp/Connection.h"

namespace mgc {

enum class StoreKind : uint8_t {
  // From a process. Key, ms to wait, place, places and value are the body of all four requests.
  hello,         // magic, protocol, rank, processes, plan version, plan hash, settings, who, failure, ms to wait
  who,           // magic
  gather,        // gives the value, waits for those of all places
  gatherToFirst, // the same, but only place 0 waits; the others are answered at once, without values
  share,         // gives the one value of a key
  get,           // waits for it
  abort,         // cause
  // From the store.
  heard,   // at once after a hello
  welcome, // all have come
  values,  // key, values by place; of who one text alone
  refused, // key, why
  notice,  // rank or -1, cause: why all end
  // From rank 0, and then from the store to all.
  told // rank 0 has told the user the cause
};

inline constexpr std::string_view kStoreMagic = "mgrun's store";
inline constexpr int64_t kStoreProtocol = 6;
inline constexpr int64_t kMaxHelloBytes = 1 << 16;
inline constexpr size_t kMaxCauseBytes = 16384, kMaxKeyBytes = 1024;
inline constexpr int64_t kMaxStoreBytes = 64 << 20;            // limit of the values that the store holds
inline constexpr int64_t kMaxAnswerBytes = 2 * kMaxStoreBytes; // with keys and lengths
// The gather that ends a run: a process that has given its value may go.
inline constexpr std::string_view kEndOfRun = "the end of the run";

} // namespace mgc
