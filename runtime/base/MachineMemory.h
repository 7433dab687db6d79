// How much more memory may be taken here: what the machine has left, what the control groups of this process leave, and
// the limits of the process itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgc {

struct MemoryLimit {
  // The processes that share it: all of the machine; those of the control group `group` and the groups below it; this
  // one.
  enum class Of { machine, group, process };
  Of of = Of::machine;
  std::string group;     // as memoryGroup(); empty: no group
  std::string name;      // for people: "MemAvailable of /proc/meminfo"
  int64_t available = 0; // bytes
};

// The control group that bounds the memory of this process, as the namespace of groups and a path in it: containers of one
// machine call theirs all "/". Empty where there is none. `root`: where /proc and /sys are, for tests.
std::string memoryGroup(const std::string &root = "");

// Whether a limit of `group` is one of a process in `member` too.
bool isInGroup(std::string_view member, std::string_view group);

// The limits that exist and can be read. Page cache, reclaimable slabs and free swap count as available.
// Linux: /proc/meminfo (proc(5)), cgroup v2 (memory.max, memory.current, memory.stat, memory.swap.max) and v1, getrlimit(2)
// RLIMIT_AS, RLIMIT_DATA.
std::vector<MemoryLimit> memoryLimits(const std::string &root = "");

std::string inGib(int64_t bytes); // "3221225472 bytes (3.00 GiB)"

// The soft limit of getrlimit(2), RLIMIT_.., of this process; the greatest number where there is none.
int64_t softLimit(int resource);

// Bytes that this process may still map (ulimit -v, -d); the greatest number where that is not limited.
int64_t freeAddressSpace();

} // namespace mgc
