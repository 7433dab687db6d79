// A lock on a folder that one process at a time may write.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

namespace mgc {

// Held until the descriptor ends. An error: the folder cannot be opened, or somebody holds its lock: "FOLDER: IS_HELD".
// Where the file system has no locks it holds nothing.
Result<Descriptor> lockFolder(const std::string &folder, std::string_view isHeld);

} // namespace mgc
