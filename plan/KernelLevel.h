// The processors that row kernels are compiled for.
#pragma once

#include "plan/Types.h"

#include <algorithm>

namespace mgc::plan {

// The processor that a file of row kernels needs: a CPU of a level of the x86-64 ABI, each with all that the one before
// has (v3 is AVX2 and FMA, v4 AVX-512: F, BW, CD, DQ, VL), or a GPU of that compute capability or a higher one.
enum class KernelLevel { v3, v4, sm80, sm86, sm89, sm90, sm100, sm120 };
struct KernelLevelFacts {
  std::string_view name;
  Target target;
  // A CPU's level of the x86-64 ABI, or a GPU's compute capability, 10 * major + minor.
  int64_t capability;
  // The level whose code this level's kernels are: its own, or a lower one. PTX of one compute capability runs on all
  // higher ones, as long as it asks for no more than these have. Compute capabilities 8.6, 8.9 and 12.0 have less shared
  // memory for a block than 8.0 and 10.0 (99 KiB, not 163 and 227), so a block of a row kernel has 48 KiB at most.
  KernelLevel code;
};
inline constexpr auto kKernelLevels = std::to_array<KernelLevelFacts>({
    {"x86-64-v3", Target::cpu, 3, KernelLevel::v3},
    {"x86-64-v4", Target::cpu, 4, KernelLevel::v4},
    {"sm_80", Target::cuda, 80, KernelLevel::sm80},
    {"sm_86", Target::cuda, 86, KernelLevel::sm80},
    {"sm_89", Target::cuda, 89, KernelLevel::sm80},
    {"sm_90", Target::cuda, 90, KernelLevel::sm90},
    {"sm_100", Target::cuda, 100, KernelLevel::sm100},
    {"sm_120", Target::cuda, 120, KernelLevel::sm100},
});
constexpr const KernelLevelFacts &factsOf(KernelLevel level) { return kKernelLevels[static_cast<size_t>(level)]; }
template <>
inline constexpr auto enumNames<KernelLevel> = [] {
  std::array<std::string_view, kKernelLevels.size()> names;
  std::ranges::transform(kKernelLevels, names.begin(), &KernelLevelFacts::name);
  return names;
}();
std::string_view nameOf(KernelLevel level);

} // namespace mgc::plan
