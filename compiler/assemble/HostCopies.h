// Programs of the copies between host and device around the update of a piece. In: the pieces of all stages. Out: a program for
// each direction and list of sizes; its segments are, for each copy, source and destination.
#pragma once

#include "compiler/assemble/Programs.h"
#include "dialects/mg/Mg.h"

#include <map>

namespace mgc {

// The elements of a part, and the states of a bucket that may be on the host with the bytes that a piece has of each.
struct PieceSizes {
  int64_t elementsOfPart = 0;
  std::vector<std::string> states;
  std::vector<int64_t> bytes;
};
PieceSizes sizesOf(PiecesOp pieces);

class HostCopyPrograms {
public:
  using Direction = plan::HostCopy::Direction;
  // Appends the programs of the stage's pieces that are not there yet.
  void add(StageOp stage, std::vector<AssembledProgram> &programs);
  int64_t of(Direction direction, const std::vector<int64_t> &bytes) const { return programs_.at({direction, bytes}); }

private:
  std::map<std::pair<Direction, std::vector<int64_t>>, int64_t> programs_;
};

} // namespace mgc
