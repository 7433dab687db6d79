#include "runtime/base/FolderLock.h"

#include <cstring>
#include <fcntl.h>

namespace mgc {

Result<Descriptor> lockFolder(const std::string &folder, std::string_view isHeld) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.isOpen())
    return errorf("{}: cannot be opened: {}", folder, std::strerror(errno));
  if (!descriptor.lock())
    return errorf("{}: {}", folder, isHeld);
  return descriptor;
}

} // namespace mgc
