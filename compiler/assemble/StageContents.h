// What a stage has of parameters and functions, as far as its memory asks: read off mg.stage, or planned without one (planner/search).
#pragma once

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/assemble/HostCopies.h"
#include "compiler/step/Buckets.h"

#include <set>

namespace mgc {

// The functions that the stage runs: those of forward, and all others.
struct StageFunctions {
  std::set<std::string> forward, others;
};
StageFunctions functionsOf(StageOp stage, const std::vector<ChunkLayout> &chunks);
// Adds those of the chunks' blocks.
void addFunctions(const std::vector<ChunkLayout> &chunks, StageFunctions &functions);

struct StageContents {
  const TrainingSettings &training;
  plan::Mesh mesh;
  std::vector<plan::Bucket> buckets; // states have no places
  std::vector<GatherTime> gathers;   // by bucket
  struct Place { // instances first .. first + count - 1 of a block have the argument in the bucket
    std::string block;
    int64_t argument = 0, first = 0, count = 0, bucket = 0;
  };
  std::vector<Place> places;
  struct Pieces { // parts of what a rank updates of the bucket are on the host
    int64_t bucket = 0, parts = 0;
    PieceSizes sizes;
  };
  std::vector<Pieces> piecesOnHost;
  StageFunctions functions;
};
StageContents contentsOf(StageOp stage, const std::vector<ChunkLayout> &chunks);

} // namespace mgc
