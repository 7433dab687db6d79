// The messages between a process and the store. For runtime/comm only.
//
//     process                    store
//     hello  ----------------->  keeps it until all ranks have come
//            <-----------------  heard at once, or refused
//            <-----------------  welcome, or refused
//     watch  ----------------->  on a second connection, which stays silent until the end
//     set, get, add, wait, gather, forget ---->
//            <-----------------  value, or refused
//     abort, finished -------->  on the second one
//            <-----------------  notice: why all end; over: all have finished
#pragma once

#include "runtime/comm/tcp/Messages.h"

namespace mgc {

enum class StoreKind : uint8_t {
  hello,  // magic, protocol, rank, processes, plan version, plan hash, settings, who, failure, ms to wait
  heard,  // that this is a store; without it nobody waits beyond its deadline
  who,    // magic, protocol
  watch,  // token, rank
  set,    // key, value
  get,    // key, ms to wait
  add,    // key, delta
  wait,   // key, ms to wait: as get, without the value
  gather, // key, value, ms to wait, place, number of places
  forget, // the beginning of keys
  abort,  // cause
  finished,
  welcome, // token
  value,   // value; of a gather, that of each place
  refused, // why
  notice,  // rank or -1, cause
  over
};

inline constexpr std::string_view kStoreMagic = "mgrun's store";
inline constexpr int64_t kStoreProtocol = 4;
inline constexpr int64_t kMaxHelloBytes = 16384;
inline constexpr size_t kMaxCauseBytes = 16384;

} // namespace mgc
