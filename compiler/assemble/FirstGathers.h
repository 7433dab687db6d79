// The calls of a stage that gather values once in a step (GatherTime::step). In: a stage and its chunks. Out: which unit of which
// bucket is gathered at which instance of which chunk, in the forward of the first microbatch: the first that has parameters of it,
// though its forward need not read them. That run has a chunk of its own (plan::Chunk::first).
#pragma once

#include "compiler/assemble/StageContents.h"

namespace mgc {

class FirstGathers {
public:
  FirstGathers() = default;
  FirstGathers(const StageContents &stage, const std::vector<ChunkLayout> &chunks);

  struct Unit {
    int64_t bucket = 0, unit = 0;
    auto operator<=>(const Unit &) const = default;
  };
  // Whether the chunk gathers some.
  bool has(int64_t chunk) const;
  // Units that are gathered at an instance of the chunk.
  std::vector<Unit> of(int64_t chunk, size_t instance) const;

private:
  std::map<std::pair<int64_t, size_t>, std::vector<Unit>> units_; // by chunk and instance
};

} // namespace mgc
