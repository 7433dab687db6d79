// Programs of copies between host and device: around the update of a piece, and of what an instance saves. In: the pieces and
// chunks of all stages. Out: a program for each task, direction and list of sizes; its segments are, for each copy, source and
// destination.
#pragma once

#include "compiler/assemble/ChunkLayout.h"
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
  // Forwards bring what they save to the host, the other tasks read it from there.
  static Direction directionOf(plan::Task task) { return task == plan::Task::forward ? Direction::out : Direction::in; }
  // Appends the programs of the stage that are not there yet.
  void add(StageOp stage, const std::vector<ChunkLayout> &chunks, std::vector<AssembledProgram> &programs);
  int64_t ofUpdate(Direction direction, const std::vector<int64_t> &bytes) const {
    return programs_.at({kUpdate, direction, bytes});
  }
  int64_t ofActivations(plan::Task task, const std::vector<ChunkLayout::Moved> &moved) const {
    return programs_.at({kActivations, directionOf(task), sizesOf(moved)});
  }

private:
  static constexpr std::string_view kUpdate = "update", kActivations = "activations";
  using Key = std::tuple<std::string_view, Direction, std::vector<int64_t>>;
  static std::vector<int64_t> sizesOf(const std::vector<ChunkLayout::Moved> &moved);
  void add(std::string_view task, Direction direction, const std::vector<std::string> &names,
           const std::vector<int64_t> &bytes, std::vector<AssembledProgram> &programs);
  std::map<Key, int64_t> programs_;
};

} // namespace mgc
