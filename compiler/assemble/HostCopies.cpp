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

static AssembledProgram makeCopies(plan::HostCopy::Direction direction, const PieceSizes &sizes) {
  AssembledProgram out;
  out.program.name = fmt::format("update.copy_{}", plan::nameOf(direction));
  for (size_t i = 0; i < sizes.bytes.size(); ++i)
    for (const char *side : {"from", "to"}) {
      out.program.segments.push_back(fmt::format("{}{}", side, i));
      out.program.segmentBytes.push_back(sizes.bytes[i]);
    }
  for (size_t i = 0; i < sizes.bytes.size(); ++i) {
    const auto from = int64_t(2 * i);
    out.program.instructions.push_back({plan::HostCopy{direction, sizes.bytes[i]},
                                        {{from, 0, 0, from}, {from + 1, 0, 0, from + 1}},
                                        fmt::format("{}/{}", out.program.name, sizes.states[i])});
  }
  return out;
}

void HostCopyPrograms::add(StageOp stage, std::vector<AssembledProgram> &programs) {
  for (PiecesOp pieces : stage.all<PiecesOp>()) {
    if (!pieces.getOnHost())
      continue;
    const PieceSizes sizes = sizesOf(pieces);
    for (const Direction direction : {Direction::in, Direction::out})
      if (programs_.try_emplace({direction, sizes.bytes}, int64_t(programs.size())).second)
        programs.push_back(makeCopies(direction, sizes));
  }
}

} // namespace mgc
