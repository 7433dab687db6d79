#include "runtime/checkpoint/ParameterShard.h"

#include "plan/Expand.h"
#include "runtime/io/Tensor.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace mgc {

using plan::Parameter;
using plan::ParameterDim;
using plan::Plan;

namespace {

std::vector<int64_t> rowMajorStrides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Strides in the rank's memory of a block of `sizes`.
std::vector<int64_t> localStrides(std::span<const int64_t> sizes, const Parameter::Rows &rows) {
  std::vector<int64_t> strides = rowMajorStrides(sizes);
  if (rows.extent == 0)
    return strides;
  const std::vector<int64_t> rowStrides = rowMajorStrides(sizes.first(size_t(rows.dims)));
  for (size_t i = 0; i < rowStrides.size(); ++i)
    strides[i] = rowStrides[i] * rows.extent;
  return strides;
}

int64_t productOf(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// Sizes that the file has of the dimensions [begin, begin + count).
std::vector<int64_t> validSizes(const Parameter &parameter, int64_t begin, int64_t count) {
  std::vector<int64_t> sizes;
  for (int64_t i = begin; i < begin + count; ++i)
    sizes.push_back(parameter.dims[i].valid);
  return sizes;
}

// One file dimension's stride per logical dimension: those of its group count within it.
std::vector<int64_t> fileStrides(const Parameter &parameter, std::span<const int64_t> dimStrides) {
  std::vector<int64_t> strides;
  for (size_t j = 0; j < parameter.grouping.size(); ++j) {
    std::vector<int64_t> group = validSizes(parameter, int64_t(strides.size()), parameter.grouping[j]);
    for (int64_t stride : rowMajorStrides(group))
      strides.push_back(stride * dimStrides[j]);
  }
  return strides;
}

} // namespace

Shard shardOf(const plan::Mesh &mesh, const Parameter &parameter, int64_t rank) {
  Shard shard;
  std::vector<int64_t> dimStrides = rowMajorStrides(parameter.fileShape), sizes;
  for (size_t j = 0; j < dimStrides.size(); ++j)
    shard.fileBase += parameter.offset[j] * dimStrides[j];
  shard.fileStride = fileStrides(parameter, dimStrides);
  for (size_t i = 0; i < parameter.dims.size(); ++i) {
    const ParameterDim &dim = parameter.dims[i];
    int64_t size = dim.size / plan::groupSize(mesh, dim.axes);
    int64_t block = plan::coordinate(mesh, rank, dim.axes), start = block * size;
    shard.block.push_back(block);
    sizes.push_back(size);
    shard.count.push_back(std::clamp<int64_t>(dim.valid - start, 0, size));
    shard.fileBase += start * shard.fileStride[i];
  }
  const Parameter::Rows &rows = parameter.rows;
  shard.localStride = localStrides(sizes, rows);
  shard.rows = productOf(std::span(sizes).first(size_t(rows.dims)));
  shard.rowElements = productOf(std::span(sizes).subspan(size_t(rows.dims)));
  shard.rowStride = rows.extent == 0 ? shard.rowElements : rows.extent;
  return shard;
}

int64_t beginOf(const Parameter &parameter, const Parameter::Place &place) {
  return place.elementOffset + parameter.rows.offset;
}

std::vector<Shard> partsOf(const Shard &shard, int64_t elements) {
  const size_t dim = std::ranges::find_if(shard.count, [](int64_t count) { return count != 1; }) - shard.count.begin();
  if (dim == shard.count.size())
    return {shard};
  const int64_t perIndex = productOf(std::span(shard.count).subspan(dim + 1));
  const int64_t step = std::max<int64_t>(elements / std::max<int64_t>(perIndex, 1), 1);
  std::vector<Shard> parts;
  for (int64_t begin = 0; begin < shard.count[dim]; begin += step) {
    Shard &part = parts.emplace_back(shard);
    part.count[dim] = std::min(step, shard.count[dim] - begin);
    part.localBase += begin * shard.localStride[dim];
    part.fileBase += begin * shard.fileStride[dim];
  }
  return parts;
}

void forEachRun(const Shard &shard, const std::function<void(int64_t, int64_t, int64_t)> &run) {
  if (productOf(shard.count) == 0)
    return;
  // The innermost dimensions that lie on both sides as one stretch become the run; the others are counted through.
  int64_t outer = int64_t(shard.count.size()), length = 1;
  while (outer > 0 && shard.fileStride[outer - 1] == length && shard.localStride[outer - 1] == length)
    length *= shard.count[--outer];
  std::vector<int64_t> index(outer, 0);
  for (int64_t local = shard.localBase, file = shard.fileBase;;) {
    run(local, file, length);
    int64_t dim = outer - 1;
    for (; dim >= 0; --dim) {
      local += shard.localStride[dim], file += shard.fileStride[dim];
      if (++index[dim] < shard.count[dim])
        break;
      local -= index[dim] * shard.localStride[dim], file -= index[dim] * shard.fileStride[dim];
      index[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

const plan::Bucket &bucketOf(const Plan &plan, const Parameter &parameter, const Holder &holder) {
  const Parameter::Place &place = parameter.places[holder.place];
  return plan.stages[place.stage].buckets[place.bucket];
}

int64_t beginOf(const Parameter &parameter, const Holder &holder) {
  return beginOf(parameter, parameter.places[holder.place]);
}

// A block is held by the ranks of a stage that differ along axes which do not split the parameter.
std::vector<std::vector<Holder>> blocksOf(const Plan &plan, const Parameter &parameter) {
  const plan::Mesh &mesh = plan.mesh;
  plan::Axes split, others;
  for (const ParameterDim &dim : parameter.dims)
    for (const std::string &axis : plan::primitiveAxes(mesh, dim.axes))
      if (std::ranges::find(split, axis) == split.end())
        split.push_back(axis);
  for (const plan::Axis &axis : mesh.axes)
    if (axis.role != plan::AxisRole::stage && std::ranges::find(split, axis.name) == split.end())
      others.push_back(axis.name);
  std::vector<std::vector<Holder>> blocks(plan::groupSize(mesh, split));
  for (size_t place = 0; place < parameter.places.size(); ++place) {
    const int64_t first = plan::rankAtStage(mesh, 0, parameter.places[place].stage);
    const std::vector<int64_t> owners = plan::groupOf(mesh, first, split);
    for (size_t block = 0; block < blocks.size(); ++block)
      for (const int64_t rank : plan::groupOf(mesh, owners[block], others))
        blocks[block].push_back({int64_t(place), rank});
  }
  return blocks;
}

std::vector<std::string> tensorNames(const Parameter &parameter) {
  if (parameter.stacked == 0)
    return {parameter.tensor};
  std::vector<std::string> names;
  for (int64_t index = 0; index < parameter.stacked; ++index)
    names.push_back(plan::nameInStack(parameter.tensor, index));
  return names;
}

int64_t FileTensor::elements() const { return checkedProduct(shape).value_or(0); }

// The file tensors of the parameter's tensor, without parameters.
static std::vector<FileTensor> tensorsOf(const Parameter &parameter) {
  const std::vector<int64_t> &shape = parameter.shapeOfTensor();
  if (parameter.stacked == 0)
    return {{parameter.tensor, parameter.aliases, shape, {}, false}};
  std::vector<FileTensor> tensors;
  for (int64_t index = 0; index < parameter.stacked; ++index) {
    FileTensor &tensor = tensors.emplace_back();
    tensor.name = plan::nameInStack(parameter.tensor, index);
    for (const std::string &alias : parameter.aliases)
      tensor.aliases.push_back(plan::nameInStack(alias, index));
    tensor.shape.assign(shape.begin() + 1, shape.end());
    tensor.index = index;
  }
  return tensors;
}

std::optional<Shard> partIn(const FileTensor &tensor, const Shard &shard) {
  if (tensor.index < 0)
    return shard;
  if (tensor.elements() == 0)
    return std::nullopt;
  const int64_t first = shard.fileBase / tensor.elements();
  int64_t left = tensor.index - first;
  Shard part = shard;
  for (size_t dim = 0; dim < shard.count.size() && shard.fileStride[dim] >= tensor.elements(); ++dim) {
    const int64_t stride = shard.fileStride[dim] / tensor.elements(), own = left / stride;
    if (left < 0 || own >= shard.count[dim])
      return std::nullopt;
    left -= own * stride;
    if (part.rows > 1)
      part.rows /= shard.count[dim];
    else if (shard.count[dim] > 1)
      part.rowElements = shard.localStride[dim];
    part.count[dim] = 1;
    part.localBase += own * shard.localStride[dim];
  }
  part.fileBase -= first * tensor.elements();
  return part;
}

static const plan::Bucket &bucketOf(const Plan &plan, const Parameter &parameter) {
  return bucketOf(plan, parameter, {0, 0});
}

// Tensors of parameters in such buckets.
template <typename Wants> static std::vector<FileTensor> tensorsIn(const Plan &plan, const Wants &wants) {
  std::vector<FileTensor> tensors;
  std::map<std::string, size_t> known; // the first of a stack
  for (const Parameter &parameter : plan.parameters) {
    const plan::Bucket &bucket = bucketOf(plan, parameter);
    if (!wants(bucket))
      continue;
    auto [entry, isNew] = known.try_emplace(parameter.tensor, tensors.size());
    if (isNew)
      std::ranges::move(tensorsOf(parameter), std::back_inserter(tensors));
    for (int64_t index = 0; index < std::max<int64_t>(parameter.stacked, 1); ++index) {
      tensors[entry->second + index].parameters.push_back(&parameter);
      tensors[entry->second + index].isRouterBias = bucket.isRouterBias();
    }
  }
  std::ranges::sort(tensors, {}, &FileTensor::name); // not by stages: a file is the same for every layout
  return tensors;
}

std::vector<FileTensor> fileTensors(const Plan &plan) {
  return tensorsIn(plan, [](const plan::Bucket &bucket) { return !bucket.isCounter(); });
}

std::vector<FileTensor> tensorsWithGradients(const Plan &plan) {
  return tensorsIn(plan, [](const plan::Bucket &bucket) { return !bucket.isCounter() && !bucket.isFrozen(); });
}

std::vector<FileTensor> tensorsWithLoad(const Plan &plan) {
  return tensorsIn(plan, [](const plan::Bucket &bucket) { return bucket.receivesLoad(); });
}

Status verifyArenas(const Plan &plan, std::span<std::byte *const> arenas) {
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places)
      if (place.count != 1)
        return errorf("parameter '{}' stands for {} instances, expected one each: plan::expandedParameters",
                      parameter.name, place.count);
  if (int64_t(arenas.size()) == plan.mesh.worldSize())
    return Status::ok();
  return errorf("{} allocations for a mesh of {} ranks", arenas.size(), plan.mesh.worldSize());
}

} // namespace mgc
