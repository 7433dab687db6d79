// The parameters and functions of a stage, as far as its memory asks: read off mg.stage, or planned without one (planner/search).
#pragma once

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/assemble/HostCopies.h"
#include "compiler/step/Buckets.h"

#include <set>

namespace mgc {

// The functions that a stage runs: those of forward, and all others.
struct StageFunctions {
  std::set<std::string> forward, others;
};

struct StageContents {
  const TrainingSettings *training = nullptr; // lives longer
  plan::Mesh mesh;
  std::vector<plan::Bucket> buckets; // states have no places
  std::vector<GatherTime> gathers;   // by bucket
  struct Place {                     // instances first .. first + count - 1 of a block have the argument in the bucket
    std::string block;
    int64_t argument = 0, first = 0, count = 0, bucket = 0;
    int64_t offset = 0, stride = 0; // elements of the bucket before the first, and from one to the next
  };
  std::vector<Place> places;
  struct Pieces { // parts of what a rank updates of the bucket are on the host
    int64_t bucket = 0, parts = 0;
    PieceSizes sizes;
  };
  std::vector<Pieces> piecesOnHost;
  StageFunctions ofStep; // functions of no block
};
StageContents contentsOf(StageOp stage);
// Functions of the step, and of the chunks' blocks.
StageFunctions functionsOf(const StageContents &stage, const std::vector<ChunkLayout> &chunks);

} // namespace mgc
