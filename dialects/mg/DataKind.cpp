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
                                   {"key_document_ends", Input::keyDocumentEnds, false},
                                   {"encoder_ends", Input::encoderEnds, false},
                                   {"patches", Input::patches, false},
                                   {"image_places", Input::imagePlaces, false}};
  const auto [given, number] = name.split('+');
  llvm::StringRef own = given;
  const bool ofEncoder = own.consume_front(kOfEncoder);
  int64_t shift = 0;
  const bool isShifted = given.size() < name.size();
  std::string names, shiftable, ofEither;
  for (const DataKind &kind : kinds) {
    const bool mayShift = plan::isShiftable(kind.kind);
    const bool isOfEither = plan::isOfEither(kind.kind);
    if (kind.name == own && (!isShifted || (mayShift && !number.getAsInteger(10, shift) && shift > 0)) &&
        (ofEncoder ? isOfEither && !isShifted : !plan::isOfEncoderAlone(kind.kind)))
      return DataRead{&kind, shift, ofEncoder};
    if (!plan::isOfEncoderAlone(kind.kind))
      names += (names.empty() ? "" : ", ") + kind.name.str();
    if (mayShift)
      shiftable += (shiftable.empty() ? "" : ", ") + kind.name.str() + "+N";
    if (isOfEither)
      ofEither += (ofEither.empty() ? "" : ", ") + (kOfEncoder + kind.name).str();
  }
  return errorf("mg.data is '{}'; expected one of {}, or, N positions later, of {}, or, of the encoder's "
                "sequence, of {}",
                name.str(), names, shiftable, ofEither);
}

} // namespace mgc
