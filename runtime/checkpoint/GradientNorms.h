// GradientNorms: the norm of the gradients of each layer, where the whole gradient's alone would not say which one grows.
//   in:  the ranks' memory when their gradients are complete: after the chunk "reduce", before "update"
//   out: a norm for each layer, of each element once, on whatever ranks it has copies
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"
#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/checkpoint/RankMemory.h"

#include <string>
#include <vector>

namespace mgc {

struct LayerNorm {
  std::string layer; // "model.layers.3"; of what is in no numbered layer the module: "model.embed_tokens"
  double norm = 0;
};

// The layer of a tensor: the beginning of its name up to the first number, else all but the last word.
std::string layerOf(const std::string &tensor);

// Neither frozen parameters nor loads of experts have gradients, so that the squares add up to that of the whole norm.
class GradientNorms {
public:
  // Finds what each rank of this process owns. The arguments outlive the object.
  GradientNorms(const plan::Plan &plan, Arenas arenas);
  // In the order of the plan's parameters. The gradients in the ranks are multiplied by `scale`. Each process adds up what its
  // ranks own, and sends the sums alone. Nothing in a process that does not write; all processes ask at once.
  Result<std::vector<LayerNorm>> read(double scale, Communicator *communicator = nullptr) const;

private:
  // A rank's part of the owner's copy of a block: all of it, or a slice under ZeRO 1.
  struct Piece {
    BucketBuffer buffer;
    Shard shard;
    int64_t begin = 0;
  };
  using Pieces = std::vector<Piece>;
  static double squaresOf(const Pieces &pieces);

  const Arenas arenas_;
  std::vector<std::string> layers_;
  std::vector<std::vector<Pieces>> pieces_; // by rank, by layer
};

} // namespace mgc
