// entry<Function>: a function of a plugin as its table of C functions has it. In: a function that returns a Status. Out: one that
// returns 0, or -1 and the message in its last argument.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/DeviceApi.h"

#include <algorithm>
#include <cstring>

namespace mgc::plugin {

inline int report(const Status &status, mgc_error *error) {
  if (status.isOk())
    return 0;
  const size_t length = std::min(status.message().size(), sizeof error->text - 1);
  std::memcpy(error->text, status.message().data(), length);
  error->text[length] = 0;
  return -1;
}

template <auto Function> struct Entry;
template <typename... Args, Status (*Function)(Args...)> struct Entry<Function> {
  static int call(Args... args, mgc_error *error) { return report(Function(args...), error); }
};
template <auto Function> constexpr auto entry = &Entry<Function>::call;

} // namespace mgc::plugin
