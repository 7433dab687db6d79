// The description of a machine: many equal devices, one for each rank, and the links between them.
// docs/cost.md describes the file format and how each number is used.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::cost {

// FLOP/s of one device at its dense peak, by the type of a matrix product's operands.
struct PeakRates {
  double f32 = 0, bf16 = 0;
};

// A tile of a matrix product's result that one unit of the device makes at a time, and the fraction of the peak that
// the device reaches when all units make such tiles of a product with a large k.
struct ProductTile {
  int64_t m = 1, n = 1;
  double fraction = 1;
};

struct ProductRates {
  int64_t units = 1;              // workers that compute tiles concurrently: multiprocessors of a GPU
  double startDepth = 0;          // a tile's start and end take as long as this many steps of k
  std::vector<ProductTile> tiles; // the library picks the fastest, in either orientation
};

struct AttentionRates {
  double forward = 1, backward = 1; // fractions of the peak
};

struct MemoryRates {
  double bytes = 0;     // memory of one device
  double bandwidth = 0; // bytes/s, read and written
  double fraction = 1;  // fraction of the bandwidth that a kernel reaches
};

// Memory of the host, and the link over which a device copies from it and to it, in both directions at the same time.
struct HostRates {
  double bytes = 0;     // for each device
  double bandwidth = 0; // bytes/s of one device in one direction
  double fraction = 1;  // fraction of the bandwidth that a copy of pinned memory reaches
};

// The links of a level join the devices of a domain: `ranks` of consecutive numbers. A device sends at the
// bandwidth and receives at it concurrently.
struct LinkLevel {
  int64_t ranks = 0;    // ranks of a domain; 0, for the last level alone: all
  double bandwidth = 0; // bytes/s of one device in one direction
  double fraction = 1;  // fraction of the bandwidth that a collective reaches
  double latency = 0;   // seconds of one message
  double base = 0;      // seconds of a collective besides, whatever its hops and bytes
  int64_t units = 0;    // how many of ProductRates::units a collective takes from concurrent products
};

struct Machine {
  std::string name, device;
  std::string target; // "cuda:sm_90": of plans that this machine describes by default
  PeakRates flops;
  ProductRates products;
  AttentionRates attention;
  double rows = 1; // row kernels: fraction of the f32 peak
  MemoryRates memory;
  HostRates host;
  double launch = 0; // seconds between the end of a kernel and the start of the next
  std::vector<LinkLevel> links;
  std::map<std::string, std::string> sources; // by field of this struct: where its numbers come from
};

// Bytes of a memory in a machine file are no more; a plan's PlanFit has no more either.
inline constexpr double kMostMemory = 0x1p60;

// The names of the machines that the library has, in order of preference.
std::vector<std::string> machineNames();

// The machine of that name, or of a file where `nameOrPath` is none and a file is there. Errors name the file and
// field, what was found and what was expected.
Result<Machine> findMachine(const std::string &nameOrPath);

// The text of the machine's file as it stands, with the same errors: findMachine reads a file with this text alike.
Result<std::string> machineText(const std::string &nameOrPath);

// The first machine of the library whose target is `target`; the first of all where there is none.
Machine machineForTarget(std::string_view target);

// A machine from the text of its file; the text is hostile.
Result<Machine> parseMachine(std::string_view text);

} // namespace mgc::cost
