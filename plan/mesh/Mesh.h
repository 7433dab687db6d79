// Where a rank stands in the mesh and whom it shares a communicator with.
// In: a mesh that passed verifyMesh, a rank in [0, worldSize), axis names (primitive or named: "tp" is its primitives).
// Out: coordinates and groups of ranks. These are pure arithmetic: the verifier has checked what they rely upon.
#pragma once

#include "runtime/base/Status.h"
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::plan {

// The ranks along an axis share the work of a step like this:
//   tensor    each has a part of the model's heads, features or vocabulary
//   sequence  each has a part of the positions of every sequence (context parallelism)
//   data      each has sequences of its own
//   stage     each has layers of its own
// Passes and runtime ask for roles; names are for people.
enum class AxisRole { tensor, sequence, data, stage };

// Along such an axis ranks hold the same parameters and see other tokens: gradients are summed over it once a step.
constexpr bool seesOtherTokens(AxisRole role) { return role == AxisRole::data || role == AxisRole::sequence; }

// Primitive mesh axes, first = major in the rank number: rank = ((c0 * n1 + c1) * n2 + c2) ...
struct Axis {
  std::string name;
  int64_t size = 1;
  AxisRole role = AxisRole::tensor;
  bool operator==(const Axis &) const = default;
};
using Axes = std::vector<std::string>; // names of primitive axes, first = major

// The named axis between instances of the distributed optimizer: Megatron-LM's --num-distributed-optimizer-instances.
inline constexpr std::string_view kInstanceAxis = "dpo";

struct Mesh {
  std::vector<Axis> axes;
  std::map<std::string, Axes> named; // "tp" -> ["tpg", "tpr"]; every primitive axis names itself
  int64_t worldSize() const;
  bool operator==(const Mesh &) const = default;
};

// Sizes are positive, names are unique and not empty, named axes list primitive ones (each at most once), a
// primitive axis names only itself, and the world size fits into 31 bits.
Status verifyMesh(const Mesh &mesh);

// Whether each name is an axis of the mesh and no primitive axis comes twice.
Status verifyAxes(const Mesh &mesh, const Axes &axes);

// The primitive axes of this role, in the order of the mesh.
Axes axesOf(const Mesh &mesh, AxisRole role);

// `axes` with every named axis replaced by its primitives, in order.
Axes primitiveAxes(const Mesh &mesh, const Axes &axes);

// The number of ranks along `axes` together; 1 for none.
int64_t groupSize(const Mesh &mesh, const Axes &axes);

// The rank's position along `axes`, first = major: in [0, groupSize). 0 for none.
int64_t coordinate(const Mesh &mesh, int64_t rank, const Axes &axes);

// The ranks that differ from `rank` along `axes` at most, by their coordinate along them; group[coordinate] == rank.
std::vector<int64_t> groupOf(const Mesh &mesh, int64_t rank, const Axes &axes);

// The rank's pipeline stage: its coordinate along the axes of the role stage, 0 when the mesh has none.
int64_t stageOf(const Mesh &mesh, int64_t rank);

// Whether one of `axes` is of the role stage.
bool hasStages(const Mesh &mesh, const Axes &axes);

// The number of pipeline stages: the extent of those axes, 1 when the mesh has none.
int64_t stageCount(const Mesh &mesh);

// The rank of stage `stage` whose other coordinates equal those of `rank`.
int64_t rankAtStage(const Mesh &mesh, int64_t rank, int64_t stage);

// rankAtStage for each of `stages`, in their order.
std::vector<int64_t> groupOfStages(const Mesh &mesh, int64_t rank, const std::vector<int64_t> &stages);

} // namespace mgc::plan
