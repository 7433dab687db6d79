// The instruction "hostCopy": a copy between the rank's arena on the host and its arena on the device, the one kind that
// reads or writes the host's. It runs on a stream of its direction; later instructions that touch its bytes wait for it.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>

namespace mgc::plan {

class AttributeChecks;

struct HostCopy {
  static constexpr std::string_view kName = "hostCopy";
  static constexpr WorkKind kWork = WorkKind::hostCopy;
  // in: from the host to the device.
  enum class Direction { in, out } direction = Direction::in;
  int64_t bytes = 0;
  bool operator==(const HostCopy &) const = default;

  OperandInfos operands(const Mesh &mesh) const;
  Work work(const Mesh &) const { return {}; }
  std::string sizes() const;
  void verify(AttributeChecks &checks) const;
};
template <> inline constexpr auto enumNames<HostCopy::Direction> = std::to_array<std::string_view>({"in", "out"});

template <typename V> constexpr void fields(V &v, Of<HostCopy>) { required<&HostCopy::direction, &HostCopy::bytes>(v); }

} // namespace mgc::plan
