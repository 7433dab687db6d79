#include "plan/mesh/Mesh.h"

#include "runtime/base/Checked.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <limits>
#include <set>

namespace mgc::plan {

int64_t Mesh::worldSize() const {
  int64_t size = 1;
  for (const Axis &axis : axes)
    size *= axis.size;
  return size;
}

// The index of a primitive axis, or -1.
static int64_t axisIndex(const Mesh &mesh, const std::string &name) {
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == name)
      return static_cast<int64_t>(i);
  return -1;
}

static bool hasAxis(const Mesh &mesh, const std::string &name) {
  return axisIndex(mesh, name) >= 0 || mesh.named.contains(name);
}

// How far apart in rank number two neighbours along primitive axis `index` are.
static int64_t stride(const Mesh &mesh, int64_t index) {
  int64_t stride = 1;
  for (size_t i = index + 1; i < mesh.axes.size(); ++i)
    stride *= mesh.axes[i].size;
  return stride;
}

static std::string listAxes(const Mesh &mesh) {
  Axes names;
  for (const Axis &axis : mesh.axes)
    names.push_back(axis.name);
  for (const auto &[name, axes] : mesh.named)
    if (axisIndex(mesh, name) < 0)
      names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

static Status verifyPrimitives(const Mesh &mesh) {
  std::set<std::string> seen;
  Checked world = 1;
  for (const Axis &axis : mesh.axes) {
    if (axis.name.empty() || !seen.insert(axis.name).second)
      return errorf("axis name '{}' is empty or comes twice; primitive axes need distinct names", axis.name);
    if (axis.size < 1)
      return errorf("axis '{}' has size {}; expected a positive one", axis.name, axis.size);
    world = checkedMultiply(world, axis.size);
  }
  if (!world || *world > std::numeric_limits<int32_t>::max())
    return errorf("the axis sizes multiply to more ranks than fit into 31 bits");
  return Status::ok();
}

Status verifyMesh(const Mesh &mesh) {
  MGC_TRY(verifyPrimitives(mesh));
  for (const auto &[name, axes] : mesh.named) {
    if (axisIndex(mesh, name) >= 0 && axes != Axes{name})
      return errorf("named axis '{}' is primitive and must stand for itself, found [{}]", name, fmt::join(axes, ", "));
    for (const std::string &axis : axes)
      if (axisIndex(mesh, axis) < 0)
        return errorf("named axis '{}' lists '{}', which is no primitive axis", name, axis);
    MGC_TRY(verifyAxes(mesh, axes).at(fmt::format("named axis '{}'", name)));
  }
  return Status::ok();
}

Status verifyAxes(const Mesh &mesh, const Axes &axes) {
  for (const std::string &axis : axes)
    if (!hasAxis(mesh, axis))
      return errorf("axis '{}' is not in the mesh; it has {}", axis, listAxes(mesh));
  std::set<std::string> seen;
  for (const std::string &axis : primitiveAxes(mesh, axes))
    if (!seen.insert(axis).second)
      return errorf("axis '{}' comes twice in [{}]", axis, fmt::join(axes, ", "));
  return Status::ok();
}

Axes axesOf(const Mesh &mesh, AxisRole role) {
  Axes axes;
  for (const Axis &axis : mesh.axes)
    if (axis.role == role)
      axes.push_back(axis.name);
  return axes;
}

Axes primitiveAxes(const Mesh &mesh, const Axes &axes) {
  Axes primitive;
  for (const std::string &axis : axes)
    if (auto named = mesh.named.find(axis); named != mesh.named.end())
      primitive.insert(primitive.end(), named->second.begin(), named->second.end());
    else
      primitive.push_back(axis);
  return primitive;
}

int64_t groupSize(const Mesh &mesh, const Axes &axes) {
  int64_t size = 1;
  for (const std::string &axis : primitiveAxes(mesh, axes))
    size *= mesh.axes[axisIndex(mesh, axis)].size;
  return size;
}

int64_t coordinate(const Mesh &mesh, int64_t rank, const Axes &axes) {
  int64_t position = 0;
  for (const std::string &axis : primitiveAxes(mesh, axes)) {
    int64_t index = axisIndex(mesh, axis), size = mesh.axes[index].size;
    position = position * size + rank / stride(mesh, index) % size;
  }
  return position;
}

// The ranks reached by replacing the coordinates along `axes` by all others, one axis after another.
std::vector<int64_t> groupOf(const Mesh &mesh, int64_t rank, const Axes &axes) {
  std::vector<int64_t> group = {rank};
  for (const std::string &axis : primitiveAxes(mesh, axes)) {
    int64_t step = stride(mesh, axisIndex(mesh, axis)), here = coordinate(mesh, rank, {axis});
    std::vector<int64_t> wider;
    for (int64_t member : group)
      for (int64_t i = 0; i < groupSize(mesh, {axis}); ++i)
        wider.push_back(member + (i - here) * step);
    group = std::move(wider);
  }
  return group;
}

static Axes stageAxes(const Mesh &mesh) { return axesOf(mesh, AxisRole::stage); }

int64_t stageOf(const Mesh &mesh, int64_t rank) { return coordinate(mesh, rank, stageAxes(mesh)); }

bool hasStages(const Mesh &mesh, const Axes &axes) {
  const Axes stages = stageAxes(mesh), primitive = primitiveAxes(mesh, axes);
  return std::ranges::any_of(primitive,
                             [&](const std::string &axis) { return std::ranges::find(stages, axis) != stages.end(); });
}

int64_t stageCount(const Mesh &mesh) { return groupSize(mesh, stageAxes(mesh)); }

int64_t rankAtStage(const Mesh &mesh, int64_t rank, int64_t stage) {
  return groupOf(mesh, rank, stageAxes(mesh))[stage];
}

std::vector<int64_t> groupOfStages(const Mesh &mesh, int64_t rank, const std::vector<int64_t> &stages) {
  std::vector<int64_t> group;
  for (int64_t stage : stages)
    group.push_back(rankAtStage(mesh, rank, stage));
  return group;
}

} // namespace mgc::plan
