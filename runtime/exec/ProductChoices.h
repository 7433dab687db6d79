// Chooses the algorithm of a device's library for each matrix product, where measuring was requested.
//   in:  the products of a rank, memory to measure in, a cache of what was measured before
//   out: the algorithm of each, the same for all ranks of a run and, while the cache is kept, for all runs; of two runs that measure
//        at once, the cache keeps what the later one found
//
//   {"format": "mgc device products 1",
//    "fastest": {"NVIDIA H200, 132 multiprocessors, cuBLASLt 13.0.2, m=4096 n=4096 k=14336 bf16 -> f32 ..": 3, ...}}
//
// A number is a place in the library's list for a product, see mgc_gemm_facts.
#pragma once

#include "runtime/device/Plugin.h"
#include "runtime/io/ChoiceCache.h"

#include <span>

namespace mgc {

ChoiceFormat deviceProductFormat();

// The part of a rank's memory that measurements may overwrite, at load.
struct MeasuringRoom {
  mgc_address address = 0;
  int64_t bytes = 0;
};

class ProductChoices {
public:
  // Reads the cache; an empty path: nothing is kept.
  static Result<ProductChoices> open(const plugin::PluginDevice &device, std::string cache);

  // Chooses for each that has no choice yet: what the cache says, if the library takes it, or what is measured. An error is
  // one of the device.
  Status choose(const plugin::Stream &stream, MeasuringRoom room, std::span<const mgc_gemm_facts> products);
  // 0, the library's own choice, where there is no other.
  int64_t algorithmOf(const mgc_gemm_facts &product) const;

  // The choices, for other processes of the run, which adopt them where their device is of the same kind.
  std::string text() const;
  Status adopt(std::string_view text);

  std::vector<std::string> notes() const; // the choices, and problems with the cache

private:
  ProductChoices(const plugin::PluginDevice &device, std::string kind, std::string cache)
      : device_(&device), kind_(std::move(kind)), cache_(deviceProductFormat(), std::move(cache)) {}
  std::string keyOf(const mgc_gemm_facts &product) const;
  std::optional<int64_t> remembered(const std::string &key, mgc_gemm_facts product);
  // Nothing where the room does not hold its operands.
  Result<std::optional<int64_t>> measure(const plugin::Stream &stream, MeasuringRoom room,
                                         const mgc_gemm_facts &product);
  void keep(const std::string &key, int64_t algorithm);

  const plugin::PluginDevice *device_;
  std::string kind_; // device and library
  ChoiceCache cache_;
  bool isWritable_ = true;
  std::map<std::string, int64_t> chosen_; // by key
  int64_t measured_ = 0;
  std::vector<std::string> notes_;
};

} // namespace mgc
