// Data that a step reads.
#pragma once

#include "plan/Types.h"

namespace mgc::plan {

// Data that the runtime writes into each rank at the start of a step, for all microbatches: [microbatch][dims], local.
//   positions        places in the sequence
//   positionIds      places counted from the beginning of the document
//   documentStarts   the place of the document's beginning
//   documentEnds     the place after the document's last token; attention that is not causal sees the keys before it
//   stepTokens       one number: how many labels count in the whole step, over all microbatches and ranks
//   lossShares       1 / n where a label counts, else 0, with n labels that count in the whole step
//   encoderEnds      for the decoder: the place after the encoder's last token that is no padding, where cross-attention ends
//   patches          the pixels at each of the encoder's positions, zeros where there is no patch
//   imagePlaces      for each of the decoder's positions the encoder's position whose feature stands there, and for each of
//                    the encoder's positions the place of its feature; -1: none. A token that a feature replaces is -1.
// Kinds of keys (keyPositions ..) cover the whole sequence where the others may cover a part of it. Where documents are
// not kept apart, a sequence is one document, which ends where its padding begins. A shift by n gives position i the
// data of position i + n; if that is after the end of the sequence, or in another document of a plan that reads
// documents, token 0 and no label. A model with an encoder has two sequences per sample: an input is the decoder's
// unless it is `ofEncoder`. A sample of a model that reads images has one image or none.
struct Input {
  enum class Kind {
    tokens,
    labels,
    lossWeights,
    positions,
    keyPositions,
    samples,
    positionIds,
    documentStarts,
    keyDocumentStarts,
    stepTokens,
    lossShares,
    tokenTypes,
    documentEnds,
    keyDocumentEnds,
    encoderEnds,
    patches,
    imagePlaces
  } kind;
  DType type = DType::i32;
  struct Dim {
    // s (or t: key positions) or b; patches also have n, o, u: channels, rows and columns of pixels.
    std::string name;
    // The global size: one microbatch over all data ranks.
    int64_t size = 0;
    Axes axes;
    bool operator==(const Dim &) const = default;
  };
  std::vector<Dim> dims = {};
  // The memory: a slot for each microbatch, or one for all of them.
  int64_t ring = -1;
  // In positions, for kinds that are shiftable.
  int64_t shift = 0;
  // The input is for the encoder's sequence; only for kinds that both sequences have (isOfEither).
  bool ofEncoder = false;
  bool operator==(const Input &) const = default;
};
template <>
inline constexpr auto enumNames<Input::Kind> = std::to_array<std::string_view>(
    {"tokens", "labels", "lossWeights", "positions", "keyPositions", "samples", "positionIds", "documentStarts",
     "keyDocumentStarts", "stepTokens", "lossShares", "tokenTypes", "documentEnds", "keyDocumentEnds", "encoderEnds",
     "patches", "imagePlaces"});

// Whether inputs of the kind are places of a sequence's elements, whatever the data.
bool isPosition(Input::Kind kind);
// Whether the input is equal in every microbatch.
bool isOneForAllMicrobatches(Input::Kind kind);
// Whether the kind has a value per token, which Input::shift may take from a later one.
bool isShiftable(Input::Kind kind);
DType typeOf(Input::Kind kind);
bool readsDocuments(Input::Kind kind);
// Whether attention keeps the documents of a sequence apart, as where they begin alone (positionIds) does not.
bool separatesDocuments(Input::Kind kind);
// Whether the input holds the ends of documents.
bool isEnd(Input::Kind kind);
bool isTokenType(Input::Kind kind);
// Whether the encoder's sequence of a sample has such data, too or alone.
bool isOfEither(Input::Kind kind);
// Whether no other sequence has them.
bool isOfEncoderAlone(Input::Kind kind);

// The label of a token. causal: the next token; masked: the token itself, where it was chosen to be predicted.
enum class Objective { causal, masked };
template <> inline constexpr auto enumNames<Objective> = std::to_array<std::string_view>({"causal", "masked"});

} // namespace mgc::plan
