// Device: where a rank's memory lives and where its generated kernels come from. runtime/device/cpu is one.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mgc {

// void kernel(operands, scalars, begin, end): the rows [begin, end) of a plan::RowKernel.
using RowFunction = void (*)(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end);

// A kernel's requirements, as its library knows them from the compilation.
struct KernelNeeds {
  int64_t range = 0, scalars = 0; // exactly; at least
  std::vector<plan::RowKernel::Operand> operands;
};
// From an array as plan::kNeedsSuffix says; nothing where it is none.
std::optional<KernelNeeds> needsIn(std::span<const int64_t> numbers);
constexpr int64_t needsSize(int64_t operands) { return 3 + 4 * operands; } // of the array

class Device;

// Memory of a device; freed with the object, which must not outlive the device.
class Allocation {
public:
  Allocation() = default;
  Allocation(Device &device, std::byte *data, int64_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  Allocation(Allocation &&other) noexcept { swap(other); }
  Allocation &operator=(Allocation &&other) noexcept {
    Allocation(std::move(other)).swap(*this);
    return *this;
  }
  ~Allocation();
  std::byte *data() const { return data_; }
  int64_t bytes() const { return bytes_; }

private:
  void swap(Allocation &other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Device *device_ = nullptr;
  std::byte *data_ = nullptr;
  int64_t bytes_ = 0;
};

// The requirements of the generated kernels of a plan.
class KernelFacts {
public:
  virtual ~KernelFacts() = default;
  // Nothing where the library does not say: kernels written by hand.
  virtual std::optional<KernelNeeds> needsOf(const std::string &symbol) const = 0;
};

// The generated kernels of a plan, loaded.
class KernelLibrary : public KernelFacts {
public:
  virtual Result<RowFunction> find(const std::string &symbol) const = 0;
};

class Device {
public:
  virtual ~Device() = default;
  // At plan::kAlignment at least. All of it is zero, unless givesZeros() says otherwise; large memory is touched
  // first, and so placed, by whoever uses it.
  virtual Result<Allocation> allocate(int64_t bytes) = 0;
  virtual bool givesZeros() const = 0;
  // Refuses a plan that was compiled for another kind of device.
  virtual Status accepts(const plan::Plan &plan) const = 0;
  // Loads the one of `files` (Plan::kernels, not empty) in the folder `bundle` that suits the device best.
  // Refuses when none does, and a file whose bytes do not hash (hashName of runtime/random/Philox.h) to its hash.
  virtual Result<std::unique_ptr<KernelLibrary>> loadKernels(const std::string &bundle,
                                                             const std::vector<plan::KernelFile> &files) = 0;

private:
  friend class Allocation;
  virtual void free(std::byte *data, int64_t bytes) = 0;
};

inline Allocation::~Allocation() {
  if (data_)
    device_->free(data_, bytes_);
}

} // namespace mgc
