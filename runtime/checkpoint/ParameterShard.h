// Where the elements of a parameter lie: in the file tensor it is cut from, and in the memory of each rank.
//
//   GPT-2's c_attn.weight [4, 12] holds k as [h, g r d] from column 4 on. With g split over tp = 2, rank 1
//   holds columns 6 and 7: its shard is 4 runs of 2 elements, from file elements 6, 18, 30, 42.
#pragma once

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Status.h"

#include <functional>
#include <optional>
#include <span>

namespace mgc {

// One rank's part of a parameter: a row-major block over the local dimensions, whose rows (plan::Parameter::Rows)
// may lie apart. `count` is how much of the block the file has; the rest (rows >= valid) is padding. Strides and
// bases are in elements; those in memory count from where the block begins.
struct Shard {
  int64_t rows = 1, rowElements = 0, rowStride = 0; // the block in memory, padding included
  int64_t fileBase = 0, localBase = 0;
  std::vector<int64_t> block; // index of the block, by dimension: equal on ranks that hold the same values
  std::vector<int64_t> count, fileStride, localStride;
  // From the block's begin in memory to its end.
  int64_t span() const { return (rows - 1) * rowStride + rowElements; }
};
Shard shardOf(const plan::Mesh &mesh, const plan::Parameter &parameter, int64_t rank);

// The element of the place's bucket with which the parameter's block begins.
int64_t beginOf(const plan::Parameter &parameter, const plan::Parameter::Place &place);

// The shard in parts of about `elements`, cut along the first dimension that can be cut.
std::vector<Shard> partsOf(const Shard &shard, int64_t elements);

// Calls run(local element, file element, count) for each longest stretch contiguous on both sides.
void forEachRun(const Shard &shard, const std::function<void(int64_t, int64_t, int64_t)> &run);

// A rank that holds a block of a parameter, at parameter.places[place].
struct Holder {
  int64_t place = 0, rank = 0;
};
const plan::Bucket &bucketOf(const plan::Plan &plan, const plan::Parameter &parameter, const Holder &holder);
int64_t beginOf(const plan::Parameter &parameter, const Holder &holder); // offset of the block in that bucket

// The holders of each distinct block; the first of each is its owner: first place, coordinate 0 along replicated axes.
std::vector<std::vector<Holder>> blocksOf(const plan::Plan &plan, const plan::Parameter &parameter);

// The tensors of files that the parameter is cut from: one, or those of its stack.
std::vector<std::string> tensorNames(const plan::Parameter &parameter);

// A tensor of the checkpoint and the parameters cut from it, in the order of the plan. A stack (plan::Parameter::stacked) has
// one for each of its tensors.
struct FileTensor {
  std::string name;
  std::vector<std::string> aliases; // as Parameter's
  std::vector<int64_t> shape;
  std::vector<const plan::Parameter *> parameters;
  bool isRouterBias = false; // bucketOf: then it is f32 in every file
  int64_t index = -1;        // number of the tensor in its stack; -1: there is no stack
  int64_t elements() const;
  plan::DType savedType(plan::DType asked) const { return isRouterBias ? plan::DType::f32 : asked; }
  int64_t savedBytes(plan::DType asked) const { return elements() * sizeInBytes(savedType(asked)); }
};
// The part of the shard that lies in the tensor; its file elements count from where the tensor begins. For a stack:
// nothing where the rank has another part.
std::optional<Shard> partIn(const FileTensor &tensor, const Shard &shard);

// By name: those of a checkpoint, those of them that have gradients, and those in the place of whose gradients the load of experts
// stands, counters too.
std::vector<FileTensor> fileTensors(const plan::Plan &plan);
std::vector<FileTensor> tensorsWithGradients(const plan::Plan &plan);
std::vector<FileTensor> tensorsWithLoad(const plan::Plan &plan);

// Whether there is one allocation per rank. verifyPlan has proved that the addresses computed here lie inside them, and
// that parameters cover their tensors exactly once.
Status verifyArenas(const plan::Plan &plan, std::span<std::byte *const> arenas);

} // namespace mgc
