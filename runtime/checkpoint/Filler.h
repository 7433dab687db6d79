// Fills the buckets of all ranks of this process with numbers that are known by their place in the tensors of the model.
#pragma once

#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/RankMemory.h"

#include <functional>
#include <map>

namespace mgc {

// The threads that fill the memory.
struct FillOptions {
  // Calls work(rank) for every rank, on threads of the rank, so that its memory lies near them; none: on any.
  std::function<void(const std::function<void(int64_t rank)> &work)> onRanks = nullptr;
  int threads = 1;                 // threads per rank
  bool isZero = false;             // the memory is zero and was never touched
  int64_t pieceElements = 1 << 20; // elements of a parameter that one thread fills at a time
};

// Writes the elements [file, file + count) of a parameter's tensor, or of its stack of tensors, to `out`.
using Fill = std::function<void(int64_t file, int64_t count, float *out)>;
using FillFor = std::function<Fill(const plan::Parameter &)>;

struct Fills {
  FillFor weights;
  // Fills of states that the optimizer keeps, by plan::State::name; others become zero.
  std::map<std::string, FillFor> kept = {};
};

// Values, masters and what the optimizer keeps; padding is zero.
void fillBuckets(const plan::Plan &plan, Arenas arenas, const FillOptions &options, const Fills &fills);

// The fill of a stack, whose tensors of so many elements each lie one after another; or of one tensor.
Fill fillOfStack(std::vector<Fill> tensors, int64_t elements);

} // namespace mgc
