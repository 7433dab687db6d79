// See MachineMemory.h.
#include "runtime/base/MachineMemory.h"

#include "runtime/base/File.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <sys/resource.h>

namespace mgc {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostText = 1 << 20;

std::string textOf(const std::string &path) {
  const Result<std::string> text = readFile(path, kMostText);
  return text.isOk() ? *text : "";
}

std::optional<int64_t> numberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

// The number in the line that begins with `key` and no letter.
std::optional<int64_t> valueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(key) && line.size() > key.size() && (line[key.size()] == ' ' || line[key.size()] == '\t'))
      return numberIn(line.substr(key.size()));
  }
  return std::nullopt;
}

// The names that a version of control groups has for its files, and for what the kernel can take back of a group's memory.
// In v1 the hierarchy of the memory controller counts.
struct Kind {
  std::string_view mount, most, used;
  std::array<std::string_view, 3> reclaimable; // fields of memory.stat
};
constexpr Kind kVersion2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};
constexpr Kind kVersion1 = {"/sys/fs/cgroup/memory",
                            "memory.limit_in_bytes",
                            "memory.usage_in_bytes",
                            {"total_inactive_file", "total_active_file"}};

struct ControlGroup {
  Kind kind;
  std::string path; // "/" or "/a/b"
};

// Lines of /proc/self/cgroup: "0::/a/b" of version 2, "4:cpu,memory:/a/b" of version 1. A controller is in one of them.
std::optional<ControlGroup> groupOf(const std::string &root) {
  const std::string text = textOf(root + "/proc/self/cgroup");
  std::optional<ControlGroup> unified;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0)
      continue;
    const std::string names = fmt::format(",{},", line.substr(controllers, path - 1 - controllers));
    if (names.find(",memory,") != std::string::npos)
      return ControlGroup{kVersion1, std::string(line.substr(path))};
    if (names == ",,")
      unified = ControlGroup{kVersion2, std::string(line.substr(path))};
  }
  return unified;
}

// Bytes of swap that the group may still take; 0 where nothing says so (v1 bounds memory and swap together).
int64_t freeSwapOf(const std::string &folder, int64_t ofMachine) {
  const std::string text = textOf(folder + "memory.swap.max");
  if (text.empty())
    return 0;
  const std::optional<int64_t> most = numberIn(text); // none: "max"
  const int64_t used = numberIn(textOf(folder + "memory.swap.current")).value_or(0);
  return most ? std::min(std::max<int64_t>(*most - used, 0), ofMachine) : ofMachine;
}

// "cgroup:[4026531835]", the namespace that paths of groups are relative to; empty where it cannot be told.
std::string namespaceOfGroups(const std::string &root) {
  std::error_code ignored;
  return std::filesystem::read_symlink(root + "/proc/self/ns/cgroup", ignored).string();
}

std::optional<MemoryLimit> limitOf(const Kind &kind, const std::string &root, const std::string &path,
                                   int64_t freeSwap) {
  const std::string folder = fmt::format("{}{}{}/", root, kind.mount, path == "/" ? "" : path);
  const std::optional<int64_t> most = numberIn(textOf(folder + std::string(kind.most)));
  const std::optional<int64_t> used = numberIn(textOf(folder + std::string(kind.used)));
  if (!most || !used)
    return std::nullopt; // "max": not limited
  const std::string stat = textOf(folder + "memory.stat");
  int64_t taken = *used;
  for (const std::string_view field : kind.reclaimable)
    taken -= field.empty() ? 0 : valueOf(stat, field).value_or(0);
  const int64_t swap = freeSwapOf(folder, freeSwap);
  return MemoryLimit{MemoryLimit::Of::group, namespaceOfGroups(root) + path,
                     fmt::format("{} of the control group {}{}", kind.most, path, swap > 0 ? " and its swap" : ""),
                     std::max<int64_t>(*most - std::max<int64_t>(taken, 0), 0) + swap};
}

struct ProcessLimit {
  int resource;
  std::string_view used, name; // keys in /proc/self/status, for the process
};
constexpr ProcessLimit kProcessLimits[] = {{RLIMIT_AS, "VmSize:", "the address space, ulimit -v"},
                                           {RLIMIT_DATA, "VmData:", "the data segment, ulimit -d"}};

std::vector<MemoryLimit> limitsOfProcess() {
  std::vector<MemoryLimit> limits;
  const std::string status = textOf("/proc/self/status");
  for (const auto &[resource, used, name] : kProcessLimits)
    if (const int64_t limit = softLimit(resource); limit < kUnlimited) {
      const int64_t free = limit - valueOf(status, used).value_or(0) * 1024; // in kB
      limits.push_back({MemoryLimit::Of::process, "", std::string(name), std::max<int64_t>(free, 0)});
    }
  return limits;
}

} // namespace

int64_t softLimit(int resource) {
  rlimit limit{};
  const bool isLimited = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 &&
                         limit.rlim_cur < static_cast<rlim_t>(kUnlimited);
  return isLimited ? static_cast<int64_t>(limit.rlim_cur) : kUnlimited;
}

std::string memoryGroup(const std::string &root) {
  const std::optional<ControlGroup> group = groupOf(root);
  return group ? namespaceOfGroups(root) + group->path : "";
}

bool isInGroup(std::string_view member, std::string_view group) {
  return member.starts_with(group) &&
         (member.size() == group.size() || group.ends_with('/') || member[group.size()] == '/');
}

std::vector<MemoryLimit> memoryLimits(const std::string &root) {
  std::vector<MemoryLimit> limits;
  const std::string meminfo = textOf(root + "/proc/meminfo");
  const int64_t freeSwap = valueOf(meminfo, "SwapFree:").value_or(0) * 1024; // in kB
  if (const auto kilobytes = valueOf(meminfo, "MemAvailable:"))
    limits.push_back({MemoryLimit::Of::machine, "",
                      freeSwap > 0 ? "MemAvailable and SwapFree of /proc/meminfo" : "MemAvailable of /proc/meminfo",
                      *kilobytes * 1024 + freeSwap});
  if (const std::optional<ControlGroup> group = groupOf(root))
    for (std::filesystem::path path = group->path;; path = path.parent_path()) {
      if (auto limit = limitOf(group->kind, root, path, freeSwap))
        limits.push_back(std::move(*limit));
      if (path == path.parent_path())
        break;
    }
  std::ranges::move(limitsOfProcess(), std::back_inserter(limits));
  return limits;
}

std::string inGib(int64_t bytes) {
  return fmt::format("{} bytes ({:.2f} GiB)", bytes, double(bytes) / double(int64_t(1) << 30));
}

int64_t freeAddressSpace() {
  int64_t least = kUnlimited;
  for (const MemoryLimit &limit : limitsOfProcess())
    least = std::min(least, limit.available);
  return least;
}

} // namespace mgc
