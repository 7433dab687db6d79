// See HostCopies.h.
#include "compiler/assemble/HostCopies.h"

#include "compiler/step/OffloadPieces.h"

using namespace mlir;

namespace mgc {

PieceSizes sizesOf(PiecesOp pieces) {
  StageOp stage = pieces->getParentOfType<StageOp>();
  BucketOp bucket = stage.all<BucketOp>()[pieces.getBucket()];
  const BucketTypes types(bucket, stage->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr));
  PieceSizes sizes;
  sizes.elementsOfPart = types.elementsOfPart();
  for (const StateBuffer &state : statesOf(bucket))
    if (isOffloadable(state)) {
      sizes.states.push_back(state.name.str());
      sizes.bytes.push_back(int64_t(pieces.getParts()) * sizes.elementsOfPart * bytesOfElement(state.element));
    }
  return sizes;
}

static AssembledProgram makeCopies(std::string_view task, plan::HostCopy::Direction direction,
                                   const std::vector<std::string> &names, const std::vector<int64_t> &bytes) {
  AssembledProgram out;
  out.program.name = fmt::format("{}.copy_{}", task, plan::nameOf(direction));
  for (size_t i = 0; i < bytes.size(); ++i)
    for (const char *side : {"from", "to"}) {
      out.program.segments.push_back(fmt::format("{}{}", side, i));
      out.program.segmentBytes.push_back(bytes[i]);
    }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto from = int64_t(2 * i);
    out.program.instructions.push_back({plan::HostCopy{direction, bytes[i]},
                                        {{from, 0, 0, from}, {from + 1, 0, 0, from + 1}},
                                        fmt::format("{}/{}", out.program.name, names[i])});
  }
  return out;
}

std::vector<int64_t> HostCopyPrograms::sizesOf(const std::vector<ChunkLayout::Moved> &moved) {
  std::vector<int64_t> bytes;
  for (const ChunkLayout::Moved &value : moved)
    bytes.push_back(value.bytes);
  return bytes;
}

void HostCopyPrograms::add(std::string_view task, Direction direction, const std::vector<std::string> &names,
                           const std::vector<int64_t> &bytes, std::vector<AssembledProgram> &programs) {
  if (programs_.try_emplace({task, direction, bytes}, int64_t(programs.size())).second)
    programs.push_back(makeCopies(task, direction, names, bytes));
}

void HostCopyPrograms::add(StageOp stage, const std::vector<ChunkLayout> &chunks,
                           std::vector<AssembledProgram> &programs) {
  for (PiecesOp pieces : stage.all<PiecesOp>())
    if (pieces.getOnHost()) {
      const PieceSizes sizes = mgc::sizesOf(pieces);
      for (const Direction direction : {Direction::in, Direction::out})
        add(kUpdate, direction, sizes.states, sizes.bytes, programs);
    }
  for (const ChunkLayout &chunk : chunks)
    for (plan::Task task : plan::kBlockTasks)
      for (const ChunkLayout::Call &call : chunk.callsOf(task))
        if (const std::vector<ChunkLayout::Moved> moved = chunk.movedOf(call); !moved.empty()) {
          std::vector<std::string> names;
          for (size_t i = 0; i < moved.size(); ++i)
            names.push_back(fmt::format("value{}", i));
          add(kActivations, directionOf(task), names, sizesOf(moved), programs);
        }
}

} // namespace mgc
