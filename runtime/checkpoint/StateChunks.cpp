// See StateChunks.h. Runs of elements become boxes of one run each, and boxes that fit together become one:
//
//   [4, 6] split over tp = 2 along its columns, rank 1:   . . . a a a      4 runs of 3 elements, one box [0, 3] of [4, 3]
//                                                         . . . b b b
//                                                         . . . c c c
//                                                         . . . d d d
#include "runtime/checkpoint/StateChunks.h"

#include "plan/Expand.h"
#include "runtime/checkpoint/BucketBuffer.h"

#include <algorithm>
#include <tuple>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

// --- Assignment of blocks to ranks ------------------------------------------------------------------------------

// A block that a rank writes: its place, and the part of the bucket that is the rank's.
struct OwnBlock {
  Holder holder;
  BucketRange slice;
};

// The rank's part of the unit, of a sharded bucket, in which the element is; of another one all. By the slices of what the update keeps,
// which are inside of those of values.
BucketRange sliceOf(const Plan &plan, const plan::Bucket &bucket, int64_t rank, int64_t element) {
  if (!bucket.isSharded())
    return {0, bucket.elements};
  const plan::Axes axes = bucket.axesOfUpdate();
  const int64_t unit = bucket.unitElements(), elements = unit / plan::groupSize(plan.mesh, axes);
  return {element / unit * unit + plan::coordinate(plan.mesh, rank, axes) * elements, elements};
}

// Blocks that the rank writes. One of the holders of a block writes it, a different one for each block. Where the
// bucket is sharded, the ranks that share its slices with that holder write their slices.
std::vector<OwnBlock> ownBlocks(const Plan &plan, size_t parameter, int64_t rank) {
  std::vector<OwnBlock> own;
  const std::vector<std::vector<Holder>> blocks = blocksOf(plan, plan.parameters[parameter]);
  for (size_t block = 0; block < blocks.size(); ++block) {
    const Holder &turn = blocks[block][(parameter + block) % blocks[block].size()];
    const plan::Bucket &bucket = bucketOf(plan, plan.parameters[parameter], turn);
    std::vector<int64_t> writers = {turn.rank};
    if (bucket.isSharded())
      writers = plan::groupOf(plan.mesh, turn.rank, bucket.axesOfUpdate());
    if (std::ranges::find(writers, rank) != writers.end())
      own.push_back({{turn.place, rank}, sliceOf(plan, bucket, rank, beginOf(plan.parameters[parameter], turn))});
  }
  return own;
}

// --- Chunks --------------------------------------------------------------------------------------------------

class ChunkMaker {
public:
  explicit ChunkMaker(std::span<const int64_t> shape) : shape_(shape) {}

  void add(const StateRun &run) {
    forEachBox(shape_, run.file, run.file + run.count, [&](const Box &box, int64_t begin, int64_t count) {
      StateChunk chunk{box, {{begin, count, run.bucket, run.element + begin - run.file}}};
      if (chunks_.empty() || !join(chunks_.back(), chunk))
        chunks_.push_back(std::move(chunk));
    });
  }

  std::vector<StateChunk> take() {
    for (size_t before = 0; before != chunks_.size();) {
      before = chunks_.size();
      for (size_t dim = shape_.size(); dim-- > 0;)
        joinAlong(dim);
    }
    std::ranges::sort(chunks_, {}, [&](const StateChunk &chunk) { return beginOf(chunk.box, shape_); });
    for (StateChunk &chunk : chunks_)
      sortRuns(chunk.runs);
    return std::move(chunks_);
  }

private:
  static bool join(StateChunk &first, StateChunk &second) {
    const std::optional<size_t> dim = joinedAlong(first.box, second.box);
    if (!dim)
      return false;
    first.box.sizes[*dim] += second.box.sizes[*dim];
    first.runs.insert(first.runs.end(), second.runs.begin(), second.runs.end());
    return true;
  }

  // Boxes that are equal but for their place along the dimension lie side by side then.
  void joinAlong(size_t dim) {
    std::ranges::sort(chunks_, {}, [dim](const StateChunk &chunk) {
      Box others = chunk.box;
      const int64_t offset = std::exchange(others.offsets[dim], 0);
      others.sizes[dim] = 0;
      return std::tuple(std::move(others.offsets), std::move(others.sizes), offset);
    });
    std::vector<StateChunk> joined;
    for (StateChunk &chunk : chunks_)
      if (joined.empty() || !join(joined.back(), chunk))
        joined.push_back(std::move(chunk));
    chunks_ = std::move(joined);
  }

  static void sortRuns(std::vector<StateRun> &runs) {
    std::ranges::sort(runs, {}, &StateRun::file);
    std::vector<StateRun> joined;
    for (const StateRun &run : runs)
      if (!joined.empty() && joined.back().bucket == run.bucket &&
          joined.back().element + joined.back().count == run.element)
        joined.back().count += run.count;
      else
        joined.push_back(run);
    runs = std::move(joined);
  }

  const std::span<const int64_t> shape_;
  std::vector<StateChunk> chunks_;
};

void addRuns(const Plan &plan, const Parameter &parameter, const OwnBlock &block, const FileTensor &tensor,
             ChunkMaker &chunks) {
  const std::optional<Shard> part = partIn(tensor, shardOf(plan.mesh, parameter, block.holder.rank));
  if (!part)
    return;
  const int64_t begin = beginOf(parameter, block.holder), bucket = parameter.places[block.holder.place].bucket;
  forEachRun(*part, [&](int64_t local, int64_t file, int64_t count) {
    const int64_t first = std::max(begin + local, block.slice.begin),
                  last = std::min(begin + local + count, block.slice.begin + block.slice.count);
    if (first < last)
      chunks.add({file + first - begin - local, last - first, bucket, first});
  });
}

} // namespace

std::vector<TensorChunks> chunksOf(const Plan &plan, int64_t rank) {
  std::vector<std::vector<OwnBlock>> blocks;
  for (size_t i = 0; i < plan.parameters.size(); ++i)
    blocks.push_back(ownBlocks(plan, i, rank));
  std::vector<TensorChunks> all;
  for (FileTensor &tensor : fileTensors(plan)) {
    ChunkMaker chunks(tensor.shape);
    for (const Parameter *parameter : tensor.parameters)
      for (const OwnBlock &block : blocks[parameter - plan.parameters.data()])
        addRuns(plan, *parameter, block, tensor, chunks);
    if (std::vector<StateChunk> made = chunks.take(); !made.empty())
      all.push_back({std::move(tensor), std::move(made)});
  }
  return all;
}

} // namespace mgc
