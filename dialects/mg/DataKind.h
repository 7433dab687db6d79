// DataKind: a value of mg.data, the kind of data that a function reads.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include "llvm/ADT/StringRef.h"

namespace mgc {

struct DataKind {
  llvm::StringLiteral name;
  plan::Input::Kind kind;
  bool isPosition; // of the sequence: the same for all samples, 0 1 2 .. in its order
};
// Error: the name is none of them.
Result<const DataKind *> findDataKind(llvm::StringRef name);

} // namespace mgc
