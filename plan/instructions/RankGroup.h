// The ranks that take part in a communication.
#pragma once

#include "plan/Types.h"

namespace mgc::plan {

// The ranks that differ from one along the axes alone; or, with stages, the ranks of these stages with its other coordinates.
struct RankGroup {
  const Axes &axes;
  const std::vector<int64_t> &stages;
};

inline const std::vector<int64_t> kNoStages; // stages of a group along axes

inline int64_t groupSize(const Mesh &mesh, const RankGroup &group) {
  return group.stages.empty() ? groupSize(mesh, group.axes) : static_cast<int64_t>(group.stages.size());
}

} // namespace mgc::plan
