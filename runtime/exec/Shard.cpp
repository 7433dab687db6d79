#include "runtime/exec/Shard.h"

#include "runtime/base/Checked.h"
#include "runtime/base/Tensor.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <system_error>
#include <thread>

namespace mgc {

using plan::Bucket;
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

// How many elements of file dimension j the parameter takes, from offset[j] on.
std::vector<int64_t> extents(const Parameter &parameter) {
  std::vector<int64_t> extents;
  int64_t dim = 0;
  for (int64_t grouped : parameter.grouping) {
    extents.push_back(checkedProduct(validSizes(parameter, dim, grouped)).value_or(0));
    dim += grouped;
  }
  return extents;
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
  shard.localStride = rowMajorStrides(sizes);
  shard.elements = checkedProduct(sizes).value_or(0);
  return shard;
}

void forEachRun(const Shard &shard, const std::function<void(int64_t, int64_t, int64_t)> &run) {
  if (checkedProduct(shard.count).value_or(0) == 0)
    return;
  // The innermost dimensions that lie on both sides as one stretch become the run; the others are counted
  // through.
  int64_t outer = int64_t(shard.count.size()), length = 1;
  while (outer > 0 && shard.fileStride[outer - 1] == length && shard.localStride[outer - 1] == length)
    length *= shard.count[--outer];
  std::vector<int64_t> index(outer, 0);
  for (int64_t local = 0, file = shard.fileBase;;) {
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

std::vector<std::vector<Holder>> blocksOf(const Plan &plan, const Parameter &parameter) {
  std::map<std::vector<int64_t>, std::vector<Holder>> blocks;
  for (size_t place = 0; place < parameter.places.size(); ++place)
    for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
      if (plan::stageOf(plan.mesh, rank) == parameter.places[place].stage)
        blocks[shardOf(plan.mesh, parameter, rank).block].push_back({int64_t(place), rank});
  std::vector<std::vector<Holder>> holders;
  for (auto &entry : blocks)
    holders.push_back(std::move(entry.second));
  return holders;
}

int64_t FileTensor::elements() const { return checkedProduct(shape).value_or(0); }

std::vector<FileTensor> fileTensors(const Plan &plan) {
  std::vector<FileTensor> tensors;
  std::map<std::string, size_t> known;
  for (const Parameter &parameter : plan.parameters) {
    auto [entry, isNew] = known.try_emplace(parameter.tensor, tensors.size());
    if (isNew)
      tensors.push_back({parameter.tensor, parameter.fileShape, {}});
    tensors[entry->second].parameters.push_back(&parameter);
  }
  return tensors;
}

// Two boxes of one tensor overlap when they do along every dimension.
static bool overlap(const Parameter &a, const Parameter &b) {
  std::vector<int64_t> sizesA = extents(a), sizesB = extents(b);
  for (size_t j = 0; j < sizesA.size(); ++j)
    if (a.offset[j] + sizesA[j] <= b.offset[j] || b.offset[j] + sizesB[j] <= a.offset[j])
      return false;
  return true;
}

Status verifyCover(const std::vector<FileTensor> &tensors) {
  for (const FileTensor &tensor : tensors) {
    int64_t covered = 0;
    for (size_t i = 0; i < tensor.parameters.size(); ++i) {
      covered += checkedProduct(extents(*tensor.parameters[i])).value_or(0);
      for (size_t j = 0; j < i; ++j)
        if (overlap(*tensor.parameters[i], *tensor.parameters[j]))
          return errorf("tensor {}: parameters {} and {} both hold a part of it", tensor.name,
                        tensor.parameters[j]->name, tensor.parameters[i]->name);
    }
    if (covered != tensor.elements())
      return errorf("tensor {}: its parameters hold {} of its {} elements", tensor.name, covered,
                    tensor.elements());
  }
  return Status::ok();
}

static Status verifyDims(const plan::Mesh &mesh, const Parameter &parameter) {
  std::vector<int64_t> sizes;
  if (parameter.places.empty())
    return errorf("no stage holds it");
  for (const ParameterDim &dim : parameter.dims) {
    MGC_TRY(plan::verifyAxes(mesh, dim.axes).at(dim.name));
    if (std::ranges::count(plan::primitiveAxes(mesh, dim.axes), "pp") > 0)
      return errorf("dimension {} is split over pp, expected to be whole on a stage", dim.name);
    if (dim.size < 0 || dim.valid < 0 || dim.valid > dim.size ||
        dim.size % plan::groupSize(mesh, dim.axes) != 0)
      return errorf(
          "dimension {} has size {} and {} valid, expected valid in [0, size] and a size that divides by {}",
          dim.name, dim.size, dim.valid, plan::groupSize(mesh, dim.axes));
    sizes.push_back(dim.size);
  }
  if (!checkedProduct(sizes))
    return errorf("its size does not fit 63 bits");
  return Status::ok();
}

// Grouping, offset and dims lead to elements inside fileShape.
static Status verifyMapping(const Parameter &parameter) {
  size_t rank = parameter.fileShape.size();
  if (parameter.grouping.size() != rank || parameter.offset.size() != rank)
    return errorf("fileShape has {} dimensions, grouping {}, offset {}, expected equal", rank,
                  parameter.grouping.size(), parameter.offset.size());
  int64_t left = int64_t(parameter.dims.size());
  for (int64_t grouped : parameter.grouping) {
    if (grouped < 0 || grouped > left)
      return errorf("grouping has {}, expected {} at most", grouped, left);
    left -= grouped;
  }
  if (left != 0 || !checkedProduct(parameter.fileShape))
    return errorf("grouping leaves out {} dimensions, or fileShape {} is too large", left,
                  shapeToString(parameter.fileShape));
  std::vector<int64_t> taken = extents(parameter);
  for (size_t j = 0; j < rank; ++j)
    if (!fitsInside(parameter.offset[j], taken[j], parameter.fileShape[j]))
      return errorf("takes [{}, {} + {}) of dimension {} of {}", parameter.offset[j], parameter.offset[j],
                    taken[j], j, shapeToString(parameter.fileShape));
  return Status::ok();
}

static Status verifyPlace(const Plan &plan, const Parameter &parameter, const Parameter::Place &place) {
  if (place.stage < 0 || place.stage >= int64_t(plan.stages.size()) || place.bucket < 0 ||
      place.bucket >= int64_t(plan.stages[place.stage].buckets.size()))
    return errorf("place in stage {}, bucket {} does not exist", place.stage, place.bucket);
  const Bucket &bucket = plan.stages[place.stage].buckets[place.bucket];
  int64_t elements = shardOf(plan.mesh, parameter, 0).elements;
  if (!fitsInside(place.elementOffset, elements, bucket.elements))
    return errorf("{} elements at {} do not fit the {} elements of bucket {}", elements, place.elementOffset,
                  bucket.elements, bucket.name);
  return Status::ok();
}

static Status verifyBucket(const Plan &plan, const plan::StagePlan &stage, const Bucket &bucket) {
  MGC_TRY(plan::verifyAxes(plan.mesh, bucket.dataAxes));
  int64_t ranks = plan::groupSize(plan.mesh, bucket.dataAxes), parts = bucket.sharded ? ranks : 1;
  if (bucket.elements < 0 || bucket.elements % parts != 0)
    return errorf("{} elements do not divide into {} slices", bucket.elements, parts);
  Checked whole = checkedMultiply(bucket.elements, 4), slice = checkedMultiply(bucket.elements / parts, 4);
  bool fits = fitsInside(bucket.valueOffset, whole, stage.bytes) &&
              fitsInside(bucket.gradientOffset, whole, stage.bytes) &&
              fitsInside(bucket.firstMomentOffset, slice, stage.bytes) &&
              fitsInside(bucket.secondMomentOffset, slice, stage.bytes) &&
              (!bucket.sharded || fitsInside(bucket.gradientShardOffset, slice, stage.bytes));
  return fits ? Status::ok() : errorf("does not fit the {} bytes of its rank", stage.bytes);
}

Status verifyParameters(const Plan &plan, std::span<std::byte *const> arenas) {
  if (int64_t(arenas.size()) != plan.mesh.worldSize())
    return errorf("{} allocations for a mesh of {} ranks", arenas.size(), plan.mesh.worldSize());
  if (int64_t(plan.stages.size()) != plan::stageCount(plan.mesh))
    return errorf("{} stages for a mesh of {}", plan.stages.size(), plan::stageCount(plan.mesh));
  for (const plan::StagePlan &stage : plan.stages)
    for (const Bucket &bucket : stage.buckets)
      MGC_TRY(verifyBucket(plan, stage, bucket).at(fmt::format("bucket {}", bucket.name)));
  std::map<std::string, const Parameter *> tensors;
  for (const Parameter &parameter : plan.parameters) {
    std::string where = fmt::format("parameter {}", parameter.name);
    MGC_TRY(verifyDims(plan.mesh, parameter).at(where));
    MGC_TRY(verifyMapping(parameter).at(where));
    const Parameter *first = tensors.try_emplace(parameter.tensor, &parameter).first->second;
    if (first->fileShape != parameter.fileShape)
      return errorf("{}: tensor {} has shape {}, but {} in parameter {}", where, parameter.tensor,
                    shapeToString(parameter.fileShape), shapeToString(first->fileShape), first->name);
    for (const Parameter::Place &place : parameter.places)
      MGC_TRY(verifyPlace(plan, parameter, place).at(where));
  }
  return Status::ok();
}

void forEachInParallel(int64_t count, const std::function<void(int64_t)> &body) {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i = next++; i < count; i = next++)
      body(i);
  };
  std::vector<std::jthread> helpers;
  int64_t threads = std::min<int64_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  try {
    for (int64_t i = 1; i < threads; ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) { // the system has no more threads: those there are do it
  }
  work();
}

} // namespace mgc
