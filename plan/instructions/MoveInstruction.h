// The instruction "move": data movement inside a rank.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

// Local data movement. slice: [outer, n*chunk] -> [outer, chunk], the part at the rank's coordinate along axes.
struct Move {
  static constexpr std::string_view kName = "move";
  static constexpr WorkKind kWork = WorkKind::move;
  enum class Kind { copy, fill, slice, demote } kind = Kind::copy;
  int64_t bytes = 0; // copy, fill (with zero byte), demote: whole size. demote: copy where the coordinate
                     // along axes is 0, else zero
  int64_t outer = 1, chunkBytes = 0; // slice
  Axes axes;
  bool operator==(const Move &) const = default;

  OperandInfos operands(const Mesh &mesh) const;
  bool mayWorkInPlace() const { return kind == Kind::copy || kind == Kind::demote; }
  Work work(const Mesh &) const { return {}; }
  std::string sizes() const;
  const Axes &placement() const { return axes; }
  void verify(AttributeChecks &checks) const;
};
template <>
inline constexpr auto enumNames<Move::Kind> = std::to_array<std::string_view>({"copy", "fill", "slice", "demote"});

template <typename V> constexpr void fields(V &v, Of<Move>) {
  required<&Move::kind>(v);
  optional<&Move::bytes, &Move::outer, &Move::chunkBytes, &Move::axes>(v);
}

} // namespace mgc::plan
