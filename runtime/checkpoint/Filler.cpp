// See Filler.h.
#include "runtime/checkpoint/Filler.h"

#include "plan/Expand.h"
#include "runtime/base/InParallel.h"
#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cstring>

namespace mgc {

using plan::Bucket;
using plan::Parameter;
using plan::Plan;

namespace {

// All states of the buckets of a rank but gradients, and values that are gathered in each microbatch.
void clearBuckets(const Plan &plan, int64_t rank, std::byte *arena) {
  for (const Bucket &bucket : plan.stages[plan::stageOf(plan.mesh, rank)].buckets)
    for (const plan::State &state : bucket.states)
      if (!isGradient(state.role) && !isOfMicrobatches(state.role))
        for (const plan::StateSpan &part : spansOf(plan, bucket, state))
          std::memset(arena + part.offset, 0, size_t(part.bytes));
}

bool hasMasters(const Bucket &bucket) { return bucket.has(plan::StateRole::master); }

// A distinct block of a parameter. One of its holders fills its values, the others copy them. Masters lie where the
// values do, or in slices; slices every holder fills by itself, of values too.
struct FillBlock {
  const Parameter *parameter;
  Holder filler;
  std::vector<Holder> copiers;
};

// The blocks of all parameters but counters, which stay zero. The holders of replicated blocks take turns, so that none
// has all the work.
std::vector<FillBlock> blocksToFill(const Plan &plan, Arenas arenas) {
  std::vector<FillBlock> blocks;
  for (const Parameter &parameter : plan.parameters) {
    if (isCounter(plan, parameter))
      continue;
    for (std::vector<Holder> &holders : blocksOf(plan, parameter)) {
      std::erase_if(holders, [&](const Holder &holder) { return !arenas[holder.rank]; });
      if (holders.empty())
        continue;
      const auto turn = holders.begin() + int64_t(blocks.size() % holders.size());
      const Holder filler = *turn;
      holders.erase(turn);
      blocks.push_back({&parameter, filler, std::move(holders)});
    }
  }
  return blocks;
}

class Filler {
public:
  Filler(const Plan &plan, Arenas arenas, const FillOptions &options, const Fills &fills)
      : plan_(plan), arenas_(arenas), options_(options), fills_(fills), blocks_(blocksToFill(plan, arenas)) {}
  void run();

private:
  void onRanks(const std::function<void(int64_t)> &work) const;
  void fillOf(int64_t rank) const;
  void copyOf(int64_t rank) const;
  struct Piece {
    const FillBlock *block;
    Holder holder;
    Shard shard;
  };
  void fillPiece(const Piece &piece) const;
  void fillKeptOf(int64_t rank, const FillFor &fillFor, const std::string &name) const;
  void fillKept(const Piece &piece, const FillFor &fillFor, const std::string &name) const;
  void copyRows(const FillBlock &block, const Holder &to, const StateOf &state) const;
  BucketBuffer bufferOf(const FillBlock &block, const Holder &holder, const StateOf &state) const {
    return {plan_, *block.parameter, holder, state, arenas_};
  }
  Shard shardOf(const FillBlock &block) const { return mgc::shardOf(plan_.mesh, *block.parameter, block.filler.rank); }
  template <typename Body> void inParallel(size_t tasks, const Body &body) const {
    parallelFor(options_.threads, options_.threads, int64_t(tasks), [&](int64_t task, int64_t) { body(task); });
  }

  const Plan &plan_;
  const Arenas arenas_;
  const FillOptions &options_;
  const Fills &fills_;
  const std::vector<FillBlock> blocks_;
};

void Filler::onRanks(const std::function<void(int64_t)> &work) const {
  const std::function<void(int64_t)> workOfHeld = [&](int64_t rank) {
    if (arenas_[rank])
      work(rank);
  };
  if (options_.onRanks)
    options_.onRanks(workOfHeld);
  else
    forEachInParallel(int64_t(arenas_.size()), workOfHeld);
}

// The block's filler has all values to write, unless they are in slices; each holder its part of what is.
// A slice of masters is inside of the slice of the values.
void Filler::fillPiece(const Piece &piece) const {
  const Fill fill = fills_.weights(*piece.block->parameter);
  const BucketBuffer values = bufferOf(*piece.block, piece.holder, valuesOf),
                     weights = bufferOf(*piece.block, piece.holder, weightsOf);
  const bool hasAllValues = piece.holder.rank == piece.block->filler.rank && !values.isSliced();
  const int64_t begin = beginOf(*piece.block->parameter, piece.holder);
  forEachRun(piece.shard, [&](int64_t local, int64_t file, int64_t count) {
    const BucketRange run = {begin + local, count}, part = hasAllValues        ? run
                                                           : values.isSliced() ? values.ownPart(run)
                                                                               : weights.ownPart(run);
    if (part.count == 0)
      return;
    const int64_t from = file + part.begin - run.begin;
    if (values.type() == plan::DType::f32) // there are no masters
      return fill(from, part.count, reinterpret_cast<float *>(values.data(part.begin)));
    float staged[kStaged];
    for (int64_t done = 0; done < part.count; done += kStaged) {
      const BucketRange now = {part.begin + done, std::min(kStaged, part.count - done)};
      fill(from + done, now.count, staged);
      if (hasMasters(bucketOf(plan_, *piece.block->parameter, piece.holder)))
        weights.write(now, staged);
      if (hasAllValues || values.isSliced())
        values.write(now, staged);
    }
  });
}

void Filler::fillOf(int64_t rank) const {
  std::vector<Piece> pieces;
  for (const FillBlock &block : blocks_) {
    std::vector<Holder> holders = {block.filler};
    if (const Bucket &bucket = bucketOf(plan_, *block.parameter, block.filler);
        valuesOf(bucket).sliced || weightsOf(bucket).sliced)
      holders.insert(holders.end(), block.copiers.begin(), block.copiers.end());
    for (const Holder &holder : holders)
      if (holder.rank == rank)
        for (Shard &part : partsOf(shardOf(block), options_.pieceElements))
          pieces.push_back({&block, holder, std::move(part)});
  }
  inParallel(pieces.size(), [&](int64_t i) { fillPiece(pieces[i]); });
}

void Filler::fillKept(const Piece &piece, const FillFor &fillFor, const std::string &name) const {
  const Fill fill = fillFor(*piece.block->parameter);
  const BucketBuffer kept = bufferOf(*piece.block, piece.holder, stateNamed(name));
  const int64_t begin = beginOf(*piece.block->parameter, piece.holder);
  forEachRun(piece.shard, [&](int64_t local, int64_t file, int64_t count) {
    const BucketRange own = kept.ownPart({begin + local, count});
    for (int64_t at = own.begin, count = 0; at < own.begin + own.count; at += count) {
      count = std::min(own.begin + own.count - at, kept.runFrom(at));
      fill(file + at - begin - local, count, reinterpret_cast<float *>(kept.data(at)));
    }
  });
}

// Every holder fills its own part.
void Filler::fillKeptOf(int64_t rank, const FillFor &fillFor, const std::string &name) const {
  std::vector<Piece> pieces;
  for (const FillBlock &block : blocks_) {
    std::vector<Holder> holders = block.copiers;
    holders.push_back(block.filler);
    for (const Holder &holder : holders)
      if (const Bucket &bucket = bucketOf(plan_, *block.parameter, holder);
          holder.rank == rank && bucket.stateNamed(name))
        for (Shard &part : partsOf(shardOf(block), options_.pieceElements))
          pieces.push_back({&block, holder, std::move(part)});
  }
  inParallel(pieces.size(), [&](int64_t i) { fillKept(pieces[i], fillFor, name); });
}

void Filler::copyRows(const FillBlock &block, const Holder &to, const StateOf &state) const {
  const Shard shard = shardOf(block);
  const BucketBuffer source = bufferOf(block, block.filler, state), destination = bufferOf(block, to, state);
  const int64_t from = beginOf(*block.parameter, block.filler), out = beginOf(*block.parameter, to);
  for (int64_t row = 0; row < shard.rows; ++row)
    for (int64_t done = 0, count = 0; done < shard.rowElements; done += count) {
      const int64_t element = row * shard.rowStride + done;
      count = std::min({shard.rowElements - done, source.runFrom(from + element), destination.runFrom(out + element)});
      std::memcpy(destination.data(out + element), source.data(from + element), size_t(count * source.elementBytes()));
    }
}

void Filler::copyOf(int64_t rank) const {
  inParallel(blocks_.size(), [&](int64_t i) {
    const FillBlock &block = blocks_[i];
    for (const Holder &holder : block.copiers) {
      if (holder.rank != rank)
        continue;
      const Bucket &bucket = bucketOf(plan_, *block.parameter, holder);
      if (!valuesOf(bucket).sliced)
        copyRows(block, holder, valuesOf);
      if (hasMasters(bucket) && !weightsOf(bucket).sliced)
        copyRows(block, holder, weightsOf);
    }
  });
}

void Filler::run() {
  if (!options_.isZero)
    onRanks([&](int64_t rank) { clearBuckets(plan_, rank, arenas_[rank]); });
  onRanks([&](int64_t rank) { fillOf(rank); });
  onRanks([&](int64_t rank) { copyOf(rank); });
  for (const auto &[name, fillFor] : fills_.kept)
    onRanks([&](int64_t rank) { fillKeptOf(rank, fillFor, name); });
}

} // namespace

void fillBuckets(const Plan &plan, Arenas arenas, const FillOptions &options, const Fills &fills) {
  Filler(plan, arenas, options, fills).run();
}

Fill fillOfStack(std::vector<Fill> tensors, int64_t elements) {
  if (tensors.size() == 1)
    return std::move(tensors[0]);
  return [tensors = std::move(tensors), elements](int64_t file, int64_t count, float *out) {
    for (int64_t done = 0; done < count;) {
      const int64_t element = (file + done) % elements, part = std::min(count - done, elements - element);
      tensors[(file + done) / elements](element, part, out + done);
      done += part;
    }
  };
}

} // namespace mgc
