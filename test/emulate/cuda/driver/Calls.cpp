#include "test/emulate/cuda/driver/Calls.h"

#include "test/emulate/cuda/driver/Settings.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <string_view>

namespace mgc::emulate {
namespace {

// Printed when the process ends, while threads of streams may still count: it is never destroyed itself.
struct Calls {
  std::mutex mutex;
  std::map<std::string_view, uint64_t> counts;
};

Calls &calls() {
  static auto &all = *new Calls;
  return all;
}

struct Report {
  ~Report() {
    if (!settings().calls)
      return;
    std::lock_guard lock(calls().mutex);
    const char *separator = "emulated driver: ";
    for (const auto &[name, count] : calls().counts) {
      std::fprintf(stderr, "%s%llu %.*s", separator, static_cast<unsigned long long>(count),
                   static_cast<int>(name.size()), name.data());
      separator = ", ";
    }
    std::fputs("\n", stderr);
  }
} report;

void count(std::string_view name) {
  if (!settings().calls)
    return;
  std::lock_guard lock(calls().mutex);
  ++calls().counts[name];
}

} // namespace

void countCall(const char *function) { count(function); }
void countKernel() { count("kernels run"); }

} // namespace mgc::emulate
