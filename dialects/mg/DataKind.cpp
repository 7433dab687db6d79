// See DataKind.h.
#include "dialects/mg/DataKind.h"

namespace mgc {

Result<const DataKind *> findDataKind(llvm::StringRef name) {
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
                                   {"step_tokens", Input::stepTokens, false}};
  std::string names;
  for (const DataKind &kind : kinds) {
    if (kind.name == name)
      return &kind;
    names += (names.empty() ? "" : ", ") + kind.name.str();
  }
  return errorf("mg.data is '{}'; expected one of {}", name.str(), names);
}

} // namespace mgc
