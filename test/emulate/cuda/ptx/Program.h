// The decoded form of a kernel: what Encoder makes of the text and Interpreter runs.
#pragma once

#include "test/emulate/cuda/ptx/Ptx.h"

#include <bit>
#include <functional>

namespace mgc::ptx {

constexpr unsigned kLanes = 32;
constexpr uint32_t kAllLanes = ~0u;
constexpr uint32_t kNone = ~0u;

// A generic address says by its upper byte which space it is of; a .shared address is the offset alone.
enum Space : uint8_t { inGlobal = 0, inShared = 1, inLocal = 2, inParameters = 3 };
constexpr uint64_t generic(Space space, uint64_t offset) { return uint64_t(space) << 56 | offset; }
constexpr Space spaceOf(uint64_t address) { return static_cast<Space>(address >> 56); }
constexpr uint64_t offsetOf(uint64_t address) { return address & ((1ull << 56) - 1); }

struct Op;
struct Warp;
// Runs one instruction for the lanes of the mask, which is not empty.
using Handler = void (*)(Warp &warp, const Op &op, uint32_t mask);

enum class Control : uint8_t {
  none,
  branch,  // to `target`
  call,    // to `target`; the lanes' return addresses go to register d
  returns, // to the addresses in register a
  exit,
  barrier,  // a: its number, b: how many threads, or kNone for all
  converge, // the handler runs when all lanes of the mask in register a are here
};

// Registers are byte offsets into the warp's register file, where a register has a value for each lane (a predicate: one bit).
struct Op {
  Handler run = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t guard = kNone; // predicate
  bool guardNegated = false;
  Control control = Control::none;
  uint16_t mode = 0;   // mode of the host's SSE unit: rounding, flush to zero; 0: the default
  uint32_t target = 0; // target of a branch or call
  uint32_t aux = 0;    // argument of the handler
  int64_t offset = 0;  // added to an address
  uint32_t align = 1;  // alignment of an address: a power of two
  uint32_t line = 0;
};

// The same value in every lane, e.g. an immediate operand.
struct Constant {
  uint32_t at;
  uint32_t bytes; // bytes per lane; 0 for a predicate
  uint64_t bits;
};

// A register that is filled before a block starts, from its place in the grid.
struct SpecialRegister {
  std::string name;
  uint32_t at;
  uint32_t bytes;
};

struct Program {
  std::string name;
  KernelInfo info;
  std::vector<Op> ops;
  uint32_t entry = 0;
  uint32_t registerBytes = 0;
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  const Text *text = nullptr;
};

// The state on which the kernel runs in one block. Lives as long as the launch.
struct Block {
  const Program &program;
  const Launch &launch;
  const AddressSpace &space;
  std::vector<Region> seen; // by instruction: what it touched last, in its addresses
  std::vector<std::byte> shared;
  std::vector<std::byte> local; // localBytes for each thread
  uint32_t index[3] = {};
  std::string fault; // the first one; empty: none
};

struct Warp {
  Block &block;
  uint32_t number;
  std::byte *registers;

  template <typename T> T *at(uint32_t offset) { return reinterpret_cast<T *>(registers + offset); }
  uint32_t &predicate(uint32_t offset) { return *at<uint32_t>(offset); }
  uint32_t thread(unsigned lane) const { return number * kLanes + lane; }
  // Notes a fault of the lane, unless there was one.
  void fault(const Op &op, unsigned lane, std::string what);
};

// Calls body(lane) for each lane of the mask. The loop over all lanes is one that compilers turn into vector code.
#ifdef __clang__
#define MGC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MGC_INDEPENDENT _Pragma("GCC ivdep")
#endif
template <typename Body> inline void eachLane(uint32_t mask, Body body) {
  if (mask == kAllLanes) {
    MGC_INDEPENDENT
    for (unsigned lane = 0; lane < kLanes; ++lane)
      body(lane);
    return;
  }
  for (; mask; mask &= mask - 1)
    body(static_cast<unsigned>(std::countr_zero(mask)));
}

} // namespace mgc::ptx
