// DataKind: a value of mg.data, the kind of data that a function reads.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include "llvm/ADT/StringRef.h"

namespace mgc {

struct DataKind {
  llvm::StringLiteral name;
  plan::Input::Kind kind;
  bool isPosition; // a position in the sequence: 0 1 2 .. in its order, the same for all samples
};

// Before the name of data of the encoder's sequence: "encoder.tokens".
inline constexpr llvm::StringLiteral kOfEncoder = "encoder.";

// A kind of data, and how many positions later in the sequence it is read: "tokens+1" of position i is "tokens" of i + 1.
struct DataRead {
  const DataKind *kind;
  int64_t shift = 0;
  bool ofEncoder = false;
};
// Error: the name is none of them, or is shifted and cannot be (plan::isShiftable), or the encoder has none (plan::isOfEither).
Result<DataRead> readDataKind(llvm::StringRef name);

} // namespace mgc
