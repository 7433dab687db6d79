// Loads, stores and atomics. Every access is checked: aligned, and inside one allocation, the block's shared or the thread's local
// memory. In the table "ld.T.n" loads a T into a register of n bits, and "st.m.n" stores the lower m bits of one.
#include "test/emulate/cuda/ptx/Access.h"
#include "test/emulate/cuda/ptx/Forms.h"
#include "test/emulate/cuda/ptx/Numbers.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace mgc::ptx {
namespace {

// The memory that holds the address, in addresses as the instruction has them; empty: none does.
Region regionOf(Warp &warp, Space space, bool isGeneric, unsigned lane, uint64_t address) {
  Block &block = warp.block;
  const uint64_t begin = isGeneric ? generic(space, 0) : 0;
  if (space == inShared)
    return {begin, block.shared.size(), block.shared.data()};
  if (space == inParameters)
    return {begin, block.launch.parameters.size(), const_cast<std::byte *>(block.launch.parameters.data())};
  if (const uint64_t bytes = block.program.info.localBytes; space == inLocal)
    return {begin, bytes, block.local.data() + warp.thread(lane) * bytes};
  return block.space.find(address).value_or(Region{});
}

bool holds(const Region &region, uint64_t address, unsigned bytes) {
  const uint64_t at = address - region.begin;
  return at < region.size && bytes <= region.size - at;
}

constexpr const char *kSpaceNames[] = {"global", "shared", "local", "param"};

// Host address of `bytes` bytes of the lane, or null after a fault. Notes the region for the accesses that follow, unless it is
// this lane's alone.
std::byte *locate(Warp &warp, const Op &op, unsigned lane, uint64_t address, unsigned bytes) {
  const uint32_t access = op.aux & kAccessMask;
  const bool isGeneric = access == accessGeneric;
  const Space space = access == accessShared ? inShared : access == accessGlobal ? inGlobal : spaceOf(address);
  if (address & (op.align - 1)) {
    warp.fault(op, lane, fmt::format("address {:#x} is no multiple of {}", address, op.align));
    return nullptr;
  }
  const Region region = regionOf(warp, space, isGeneric, lane, address);
  if (holds(region, address, bytes)) {
    if (space != inLocal)
      warp.block.seen[op.target] = region;
    return region.host + (address - region.begin);
  }
  if (space != inGlobal && space <= inParameters)
    warp.fault(op, lane,
               fmt::format("{} bytes at {:#x} of .{} memory, which has {}", bytes,
                           isGeneric ? offsetOf(address) : address, kSpaceNames[space], region.size));
  else
    warp.fault(op, lane, fmt::format("{} bytes at {:#x}, {}", bytes, address, warp.block.space.describe(address)));
  return nullptr;
}

// Calls body(lane, place) for the lanes of the mask, until one faults.
template <typename Body> void eachPlace(Warp &warp, const Op &op, uint32_t mask, unsigned bytes, Body body) {
  const uint32_t *shortAddress = warp.at<uint32_t>(op.a);
  const uint64_t *longAddress = warp.at<uint64_t>(op.a);
  // Copies, which no store of a lane may change. The region of the last access most often serves all lanes.
  const bool isShort = op.aux & kShortAddress;
  const uint64_t offset = op.offset, unaligned = op.align - 1;
  Region seen = warp.block.seen[op.target];
  for (; mask; mask &= mask - 1) {
    unsigned lane = std::countr_zero(mask);
    uint64_t address = (isShort ? shortAddress[lane] : longAddress[lane]) + offset;
    std::byte *place = seen.host + (address - seen.begin);
    if (!holds(seen, address, bytes) || address & unaligned) {
      place = locate(warp, op, lane, address, bytes);
      if (!place)
        return;
      seen = warp.block.seen[op.target];
    }
    body(lane, place);
  }
}

template <typename T, typename Register> Form load() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    Register *d = warp.at<Register>(op.d);
    eachPlace(warp, op, mask, sizeof(T), [=](unsigned lane, const std::byte *place) {
      T value;
      std::memcpy(&value, place, sizeof(T));
      d[lane] = static_cast<Register>(value);
    });
  };
  return {run, kBits<Register>, {64}};
}

template <typename T, typename Register> Form store() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    const Register *b = warp.at<Register>(op.b);
    eachPlace(warp, op, mask, sizeof(T), [=](unsigned lane, std::byte *place) {
      T value = static_cast<T>(b[lane]);
      std::memcpy(place, &value, sizeof(T));
    });
  };
  return {run, 0, {64, kBits<Register>}};
}

template <typename T, typename... Registers> void addLoads(Forms &forms, const std::string &type) {
  ((forms[fmt::format("ld.{}.{}", type, kBits<Registers>)] = load<T, Registers>()), ...);
}

template <typename T, typename... Registers> void addStores(Forms &forms) {
  ((forms[fmt::format("st.{}.{}", kBits<T>, kBits<Registers>)] = store<T, Registers>()), ...);
}

// d = *a; *a = f(*a, b, c), in one step. The bits of a T are exchanged as a Raw.
template <auto f, typename T, typename Raw> Form atomic(bool hasThird = false) {
  static_assert(sizeof(T) == sizeof(Raw));
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    T *d = warp.at<T>(op.d);
    const T *b = warp.at<T>(op.b), *c = warp.at<T>(op.c);
    eachPlace(warp, op, mask, sizeof(T), [=](unsigned lane, std::byte *place) {
      std::atomic_ref<Raw> cell(*reinterpret_cast<Raw *>(place));
      Raw old = cell.load();
      while (!cell.compare_exchange_weak(
          old, std::bit_cast<Raw>(static_cast<T>(f(std::bit_cast<T>(old), b[lane], c[lane])))))
        ;
      d[lane] = std::bit_cast<T>(old);
    });
  };
  Form form{run, kBits<T>, {64, kBits<T>}};
  if (hasThird)
    form.sources.push_back(kBits<T>);
  return form;
}

template <typename T> void addInteger(Forms &forms, const std::string &type) {
  forms["atom.add." + type] = atomic<[](T a, T b, T) { return a + b; }, T, T>();
  forms["atom.min." + type] = atomic<[](T a, T b, T) { return std::min(a, b); }, T, T>();
  forms["atom.max." + type] = atomic<[](T a, T b, T) { return std::max(a, b); }, T, T>();
}

template <typename T> void addBits(Forms &forms, const std::string &type) {
  forms["atom.and." + type] = atomic<[](T a, T b, T) { return a & b; }, T, T>();
  forms["atom.or." + type] = atomic<[](T a, T b, T) { return a | b; }, T, T>();
  forms["atom.xor." + type] = atomic<[](T a, T b, T) { return a ^ b; }, T, T>();
  forms["atom.exch." + type] = atomic<[](T, T b, T) { return b; }, T, T>();
  forms["atom.cas." + type] = atomic<[](T a, T b, T c) { return a == b ? c : a; }, T, T>(true);
}

struct BFloatPair {
  BFloat low, high;
};

} // namespace

void addMemory(Forms &forms) {
  addLoads<uint8_t, uint16_t, uint32_t, uint64_t>(forms, "u8");
  addLoads<int8_t, uint16_t, uint32_t, uint64_t>(forms, "s8");
  addLoads<uint16_t, uint16_t, uint32_t, uint64_t>(forms, "u16");
  addLoads<int16_t, uint16_t, uint32_t, uint64_t>(forms, "s16");
  addLoads<uint32_t, uint32_t, uint64_t>(forms, "u32");
  addLoads<int32_t, uint32_t, uint64_t>(forms, "s32");
  addLoads<uint64_t, uint64_t>(forms, "u64");
  addStores<uint8_t, uint16_t, uint32_t, uint64_t>(forms);
  addStores<uint16_t, uint16_t, uint32_t, uint64_t>(forms);
  addStores<uint32_t, uint32_t, uint64_t>(forms);
  addStores<uint64_t, uint64_t>(forms);
  addInteger<int32_t>(forms, "s32");
  addInteger<uint32_t>(forms, "u32");
  addInteger<int64_t>(forms, "s64");
  addInteger<uint64_t>(forms, "u64");
  addBits<uint32_t>(forms, "b32");
  addBits<uint64_t>(forms, "b64");
  forms["atom.inc.u32"] =
      atomic<[](uint32_t a, uint32_t b, uint32_t) { return a >= b ? 0 : a + 1; }, uint32_t, uint32_t>();
  forms["atom.dec.u32"] =
      atomic<[](uint32_t a, uint32_t b, uint32_t) { return a == 0 || b < a ? b : a - 1; }, uint32_t, uint32_t>();
  forms["atom.add.f32"] = atomic<[](float a, float b, float) { return canonical(a + b); }, float, uint32_t>();
  forms["atom.add.f64"] = atomic<[](double a, double b, double) { return a + b; }, double, uint64_t>();
  forms["atom.add.bf16x2"] = atomic<[](BFloatPair a, BFloatPair b, BFloatPair) {
    return BFloatPair{BFloat(a.low + b.low), BFloat(a.high + b.high)};
  },
                                    BFloatPair, uint32_t>();
}

} // namespace mgc::ptx
