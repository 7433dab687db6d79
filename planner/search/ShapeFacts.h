// The facts of a shape that bounds need: seconds of a microbatch and bytes of a rank, by block. In: a shape that was compiled
// (ShapeBlocks), or the outline of one with the sizes of another (ShapeOutline, SizeLaw).
#pragma once

#include "planner/search/ShapeBlocks.h"

#include <span>

namespace mgc::planner {

// Each number is that of the policy which is best in it.
struct BlockLeast {
  double forward = 0;
  double passes = 0;           // seconds of forward and backward, or its first half, to the gradient of what enters
  double all = 0;              // with backward's second half
  double unhiding = 0;         // seconds of all of them behind which no unit's collective can be hidden
  double unexposed = 0;        // seconds of all of them, less collectives that nothing hides
  double onNetwork = 0;        // seconds of their collectives, and of what can hide none
  int64_t kept = 0, frame = 0; // bytes of a microbatch, and while one of its functions runs
  // Parameters that are trained, by the data axes along which ranks have the same; and how many of them a microbatch reads, each
  // time counted.
  std::map<plan::Axes, double> elements, reads;
  // Leaves so much of `all` out of each of the seconds, and so much of each number of elements and of bytes.
  void lessen(double share);
};

// A microbatch in a block under one policy: seconds of all functions, the same less collectives that nothing hides, bytes that are kept.
struct PolicyFacts {
  double seconds = 0, unexposed = 0;
  int64_t kept = 0;
};

struct ShapeFacts {
  std::vector<BlockLeast> blocks;
  // By block: policies of which none is better in all of its facts; none of blocks without a choice, of those that return the loss, and
  // where they are not known.
  std::vector<std::vector<PolicyFacts>> policies;
  std::vector<size_t> chain;                    // blocks of all instances
  ChainCost cost;                               // without states
  std::map<int64_t, std::vector<int64_t>> cuts; // instances of each chunk, by the number of chunks
};

// A block under one policy: programs of plan::kBlockTasks, null where it does nothing.
struct VariantFacts {
  std::array<const cost::ProgramTime *, plan::kBlockTasks.size()> times = {};
  int64_t kept = 0, frame = 0; // as of BlockLeast
};
// The block's seconds and bytes, without its parameters.
BlockLeast leastOf(std::span<const VariantFacts> variants);
// ShapeFacts::policies of a block.
std::vector<PolicyFacts> policiesOf(std::span<const VariantFacts> variants);

// Parameters of several blocks are left out, since a stage may have them once.
struct CountedParameter {
  plan::Axes axes;
  int64_t elements = 0;
  int64_t reads = 0; // by functions of the block
};
std::vector<std::vector<CountedParameter>> countedParametersOf(const ShapeBlocks &shape,
                                                               std::span<const ModelBlock *const> blocks);

// Blocks of the chain in the order in which they come first.
std::vector<const ModelBlock *> blocksOfChain(const ShapeBlocks &shape);
std::vector<VariantFacts> variantsOf(const ShapeBlocks &shape, const ModelBlock &block);
std::vector<int64_t> keptSizesOf(const ShapeBlocks &shape,
                                 const ModelBlock &variant); // bytes of each value that is kept

ShapeFacts factsOf(const ShapeBlocks &shape);
// Facts become those of the other, of the same shape, where these are less.
void takeLeast(ShapeFacts &facts, const ShapeFacts &other);

} // namespace mgc::planner
