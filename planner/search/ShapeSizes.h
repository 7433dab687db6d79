// How ranks cut a microbatch and the parameters of a layer.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace mgc::planner {

struct ShapeSizes {
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, mbs = 1;
  bool splitsBackward = false;
  // Axes that exist: several data ranks, several in an instance of the optimizer, several that have the same experts. Gradients of
  // parameters are pending over them.
  bool hasData = false, hasDataInside = false, expertsHaveReplicas = false;
  int64_t dataInside = 0; // data ranks of an instance, which ranks of experts may cut; 0: they do not
  auto operator<=>(const ShapeSizes &) const = default;

  // Ranks that may have different parts of a microbatch or of a layer: the first of the mesh.
  int64_t ranksInside() const { return tp * cp > ep * etp ? tp * cp : ep * etp; }

  // Shapes that differ in the microbatch alone have the same axes.
  ShapeSizes family() const {
    ShapeSizes all = *this;
    all.mbs = 1;
    return all;
  }

  static constexpr size_t kNumbers = 5;
  std::array<int64_t, kNumbers> numbers() const { return {tp, cp, ep, etp, mbs}; }
};

} // namespace mgc::planner
