// Types that the kinds of instructions (plan/instructions) and the rest of the plan share: element types, operands, numbers
// that a rank knows.
#pragma once

#include "plan/Reflection.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Rounding.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mgc::plan {

template <>
inline constexpr auto enumNames<AxisRole> = std::to_array<std::string_view>({"tensor", "sequence", "data", "stage"});

inline constexpr int64_t kAlignment = 64; // bytes; every buffer, slot and region starts on it
constexpr int64_t aligned(int64_t bytes) { return roundUp(bytes, kAlignment); }

// The kind of device that runs a plan.
enum class Target { cpu, cuda };
template <> inline constexpr auto enumNames<Target> = std::to_array<std::string_view>({"cpu", "cuda"});

// bf16 is the upper half of an f32, rounded to nearest even.
enum class DType { f32, bf16, i32 };
template <> inline constexpr auto enumNames<DType> = std::to_array<std::string_view>({"f32", "bf16", "i32"});
int64_t sizeInBytes(DType type);
constexpr bool isFloat(DType type) { return type != DType::i32; }

struct Operand {
  int64_t segment = 0;
  int64_t offset = 0; // bytes
  int64_t stride = 0; // bytes
  // Number of the value, in its program, that these bytes are of: what an instruction writes as one value is read as no
  // other. -1: any.
  int64_t value = -1;
  bool operator==(const Operand &) const = default;
};

// The use an instruction makes of an operand. updated: reads it and writes it.
enum class OperandUse { read, written, updated };
template <>
inline constexpr auto enumNames<OperandUse> = std::to_array<std::string_view>({"read", "written", "updated"});

// A number an instruction needs that is not known until the rank, the call or the step is.
struct Scalar {
  // linear: value + sum over terms of coordinate(axes) * scale.  instance: Call::instance.  seed: of the run.
  enum class Kind { linear, instance, seed } kind = Kind::linear;
  struct Term {
    Axes axes; // the rank's position along these axes, major first
    int64_t scale = 0;
    bool operator==(const Term &) const = default;
  };
  int64_t value = 0;
  std::vector<Term> terms;
  bool operator==(const Scalar &) const = default;
};
template <>
inline constexpr auto enumNames<Scalar::Kind> = std::to_array<std::string_view>({"linear", "instance", "seed"});

} // namespace mgc::plan
