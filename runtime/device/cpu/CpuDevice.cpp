// See CpuDevice.h. A large allocation is a mapping of its own on a huge page boundary and asks for huge pages;
// the system gives each page, as zeros, to the thread that touches it first.
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/base/Rounding.h"

#include "runtime/base/File.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <sys/mman.h>

namespace mgc {

namespace {

constexpr int64_t kHugePage = 2 << 20;

bool isLarge(int64_t bytes) { return bytes >= kHugePage; }

// Whole huge pages. A size that this would take beyond 64 bits is refused before.
int64_t mappedBytes(int64_t bytes) { return roundUp(bytes, kHugePage); }
bool isPlausible(int64_t bytes) { return bytes < int64_t(1) << 62; }

// Null: no memory.
std::byte *mapAligned(int64_t bytes) {
  const int64_t mapped = bytes + kHugePage;
  void *data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return nullptr;
  auto *begin = static_cast<std::byte *>(data);
  const auto before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(begin) % kHugePage);
  if (before > 0)
    munmap(begin, before);
  munmap(begin + before + bytes, mapped - before - bytes); // at least a page is left of it
  madvise(begin + before, bytes, MADV_HUGEPAGE);           // advice: what it answers does not matter
  return begin + before;
}

// Null: no memory.
std::byte *allocateSmall(int64_t bytes) {
  void *data = nullptr;
  if (posix_memalign(&data, plan::kAlignment, std::max<int64_t>(bytes, 1)) != 0)
    return nullptr;
  return static_cast<std::byte *>(std::memset(data, 0, bytes));
}

class CpuKernelLibrary final : public KernelLibrary {
public:
  CpuKernelLibrary(std::string path, void *handle) : path_(std::move(path)), handle_(handle) {}
  ~CpuKernelLibrary() override { dlclose(handle_); }
  CpuKernelLibrary(const CpuKernelLibrary &) = delete;
  CpuKernelLibrary &operator=(const CpuKernelLibrary &) = delete;

  Result<RowFunction> find(const std::string &symbol) const override {
    if (void *address = dlsym(handle_, symbol.c_str()))
      return reinterpret_cast<RowFunction>(address);
    return errorf("{}: no kernel '{}' in it; it does not belong to this plan: compile the plan again", path_,
                  symbol);
  }

  std::optional<KernelNeeds> needsOf(const std::string &symbol) const override {
    const std::string name = symbol + std::string(plan::kNeedsSuffix);
    const auto *needs = static_cast<const int64_t *>(dlsym(handle_, name.c_str()));
    if (!needs)
      return std::nullopt;
    return needsIn({needs, static_cast<size_t>(needsSize(needs[2]))});
  }

private:
  std::string path_;
  void *handle_;
};

Result<const plan::KernelFile *> chooseKernels(const std::vector<plan::KernelFile> &files,
                                               std::optional<plan::KernelLevel> level) {
  const plan::KernelFile *best = nullptr;
  for (const plan::KernelFile &file : files)
    if (level && file.level <= *level && (!best || file.level > best->level))
      best = &file;
  if (best)
    return best;
  const auto described = [](plan::KernelLevel l) {
    return fmt::format("{} ({})", nameOf(l), l == plan::KernelLevel::v3 ? "AVX2, FMA" : "AVX-512");
  };
  const std::string least = described(std::ranges::min_element(files, {}, &plan::KernelFile::level)->level);
  if (level)
    return errorf("the plan's kernels need a CPU with {}, this one has {}; compile the plan without "
                  "--target-cpu, or for this CPU with --target-cpu native",
                  least, described(*level));
  return errorf(
      "the plan's kernels need a CPU with {}, this one has less; no kernels can be compiled for it: run "
      "the plan on another machine",
      least);
}

class CpuDevice final : public Device {
public:
  explicit CpuDevice(const CpuDeviceOptions &options) : options_(options) {}

  Result<Allocation> allocate(int64_t bytes) override {
    if (bytes < 0)
      return errorf("an allocation of {} bytes", bytes);
    std::byte *data = nullptr;
    if (isPlausible(bytes))
      data = isLarge(bytes) ? mapAligned(mappedBytes(bytes)) : allocateSmall(bytes);
    if (!data)
      return errorf(
          "the system gives no memory for an allocation of {} bytes ({:.1f} GiB); a plan whose ranks "
          "need less would fit, or more machines",
          bytes, bytes / 1073741824.0);
    if (options_.poison)
      std::memset(data, 0xFF, bytes);
    return Allocation(*this, data, bytes);
  }

  bool givesZeros() const override { return !options_.poison; }

  Status accepts(const plan::Plan &plan) const override {
    if (plan.target == plan::Target::cpu)
      return Status::ok();
    return errorf(
        "the plan is compiled for {}; this is the CPU: compile it with --target cpu, or run it on a device "
        "that it is for",
        plan::describeTarget(plan));
  }

  Result<std::unique_ptr<KernelLibrary>> loadKernels(const std::string &bundle,
                                                     const std::vector<plan::KernelFile> &files) override {
    MGC_ASSIGN(chosen, chooseKernels(files, options_.level));
    const std::string path = bundle + "/" + chosen->path;
    MGC_ASSIGN(file, MappedFile::open(path));
    if (const uint64_t found = hashName(file.text()); found != chosen->hash)
      return errorf("{}: its bytes hash to {:016x}, the plan was written for {:016x}; compile the plan again",
                    path, found, chosen->hash);
    // An absolute path keeps dlopen from searching the library path for a name without a slash.
    void *handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return errorf("{}: cannot be loaded: {}", path, dlerror());
    return std::unique_ptr<KernelLibrary>(std::make_unique<CpuKernelLibrary>(path, handle));
  }

private:
  void free(std::byte *data, int64_t bytes) override {
    if (isLarge(bytes))
      munmap(data, mappedBytes(bytes));
    else
      std::free(data);
  }
  CpuDeviceOptions options_;
};

} // namespace

std::optional<plan::KernelLevel> levelOfThisCpu() {
  if (__builtin_cpu_supports("x86-64-v4"))
    return plan::KernelLevel::v4;
  if (__builtin_cpu_supports("x86-64-v3"))
    return plan::KernelLevel::v3;
  return std::nullopt;
}

std::unique_ptr<Device> makeCpuDevice(const CpuDeviceOptions &options) {
  return std::make_unique<CpuDevice>(options);
}

} // namespace mgc
