// Whether a run multiplies bf16 by oneDNN's own product or by panels of f32, where the processor has AVX512-BF16 or AMX: which
// is faster differs by processor and version (oneDNN 2.6 on AVX512-BF16 without AMX takes 1.8 times as long as panels).
//   in:  a measurement of some tenths of a second, or what an earlier run kept of one
//   out: the choice, the same for later runs of this machine while the cache is kept, since the two differ in their bits
//
//   {"format": "mgc bf16 products 1", "fastest": {"AMD EPYC 9655, oneDNN 2.6.3, 2 threads": "panels", ...}}
#pragma once

#include "runtime/base/Status.h"
#include "runtime/kernels/GemmBf16.h"

#include <functional>
#include <optional>
#include <string>

namespace mgc {

std::string_view nameOf(Bf16Product product); // "panels", "native"
std::optional<Bf16Product> bf16ProductNamed(std::string_view name);

struct Bf16Options {
  std::optional<Bf16Product> product; // none: the faster one
  std::string cache;                  // file; empty: nothing is kept
};

// Seconds for the same few matrix products.
struct Bf16Times {
  double panels = 0, native = 0;
};
Bf16Times timeBf16Products(int threads);

// Native where it is clearly faster: times of a shared machine vary by a tenth or two.
Bf16Product fasterOf(const Bf16Times &times);

struct Bf16Choice {
  Bf16Product product = Bf16Product::panels;
  std::string note; // for people; empty: there was nothing to choose
};

// For a process of so many threads. `isNative` says whether the processor has such matrix products: an error where they
// are asked for and it has none.
using Bf16Timer = std::function<Bf16Times(int threads)>;
Result<Bf16Choice> chooseBf16Product(const Bf16Options &options, int threads, bool isNative,
                                     const Bf16Timer &measure = timeBf16Products);

} // namespace mgc
