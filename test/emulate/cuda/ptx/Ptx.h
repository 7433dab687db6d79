// A PTX interpreter: runs grids on host memory, for tests on machines without a GPU. In: the text that LLVM's NVPTX back end
// or nvcc -ptx emits. Out: what the kernels write, or an error that names the kernel, the line, the thread and the address.
//
//   AddressSpace space;                         // shift 0: device addresses are host addresses
//   MGC_ASSIGN(module, Module::load(text, space));
//   space.add(values.data(), bytes);            // only what was added may be touched
//   MGC_ASSIGN(count, module->launch("kernel", {.grid = {8}, .block = {256}, .parameters = parameters}));
//
// The threads of a warp run in lock step; the group of lanes with the lowest line runs first and waits for the others where lines
// meet, at warp-wide instructions (for the lanes in their mask) and at barriers. Blocks run one after another, or on several
// workers.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::ptx {

// One allocation: `size` bytes at the device address `begin`, which lie at `host`.
struct Region {
  uint64_t begin = 0;
  uint64_t size = 0;
  std::byte *host = nullptr;
};

// The allocations a kernel may touch. A device address is the host address plus the shift. Safe to use from several threads.
class AddressSpace {
public:
  explicit AddressSpace(uint64_t shift = 0) : shift_(shift) {}
  // Returns the device address of the first byte.
  uint64_t add(void *host, size_t bytes);
  // At an address of its own, without the shift.
  void addAt(uint64_t address, void *host, size_t bytes);
  // False when no allocation begins at the address.
  bool remove(uint64_t address);
  // The allocation that holds the address.
  std::optional<Region> find(uint64_t address) const;
  // Where the address lies, for an error: "16 bytes behind the end of the 64 bytes at 0x..".
  std::string describe(uint64_t address) const;

private:
  uint64_t shift_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Region> regions_;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  Dim3 grid = {};
  Dim3 block = {};
  uint32_t sharedBytes = 0;                   // dynamic
  std::span<const std::byte> parameters = {}; // as in the kernel's .param space: each at its offset
  unsigned workers = 1;                       // threads of the host that share the blocks
};

struct Parameter {
  uint32_t offset;
  uint32_t bytes;
};

struct KernelInfo {
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  uint32_t maxThreads = 1024; // from .maxntid or .reqntid
  uint32_t sharedBytes = 0;   // static
  uint32_t localBytes = 0;    // bytes per thread
};

struct Program;
struct Text;

class Module {
public:
  // Every instruction of every kernel is decoded here: what is unknown is an error of the load, which names the line.
  static Result<std::unique_ptr<Module>> load(std::string_view text, AddressSpace &space);
  ~Module();
  // Compute capability of the .target line: 90 for sm_90.
  int target() const;
  // Null when there is no such entry.
  const KernelInfo *kernel(std::string_view name) const;
  // A .global or .const variable.
  std::optional<Region> global(std::string_view name) const;
  // Runs the grid and returns the number of instructions, counted per thread.
  Result<uint64_t> launch(std::string_view kernel, const Launch &launch) const;

private:
  Module(AddressSpace &space);
  AddressSpace &space_;
  std::unique_ptr<Text> text_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::map<std::string, Region, std::less<>> globals_;
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs_;
};

// Lays values out as the kernel's parameters; one pointer for each, as cuLaunchKernel takes them.
std::vector<std::byte> packParameters(const KernelInfo &kernel, void *const *values);

} // namespace mgc::ptx
