// See DataKind.h.
#include "dialects/mg/DataKind.h"

namespace mgc {

Result<DataRead> readDataKind(llvm::StringRef name) {
  using Input = plan::Input::Kind;
  static const DataKind kinds[] = {{"tokens", Input::tokens, false},
                                   {"labels", Input::labels, false},
                                   {"loss_weights", Input::lossWeights, false},
                                   {"positions", Input::positions, true},
                                   {"key_positions", Input::keyPositions, true},
                                   {"samples", Input::samples, false},
                                   {"position_ids", Input::positionIds, false},
                                   {"document_starts", Input::documentStarts, false},
                                   {"key_document_starts", Input::keyDocumentStarts, false},
                                   {"step_tokens", Input::stepTokens, false},
                                   {"loss_shares", Input::lossShares, false},
                                   {"token_types", Input::tokenTypes, false},
                                   {"document_ends", Input::documentEnds, false},
                                   {"key_document_ends", Input::keyDocumentEnds, false}};
  const auto [own, number] = name.split('+');
  int64_t shift = 0;
  const bool isShifted = own.size() < name.size();
  std::string names, shiftable;
  for (const DataKind &kind : kinds) {
    const bool mayShift = plan::isShiftable(kind.kind);
    if (kind.name == own && (!isShifted || (mayShift && !number.getAsInteger(10, shift) && shift > 0)))
      return DataRead{&kind, shift};
    names += (names.empty() ? "" : ", ") + kind.name.str();
    if (mayShift)
      shiftable += (shiftable.empty() ? "" : ", ") + kind.name.str() + "+N";
  }
  return errorf("mg.data is '{}'; expected one of {}, or, N positions later, of {}", name.str(), names,
                shiftable);
}

} // namespace mgc
