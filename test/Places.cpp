// See Places.h.
#include "test/Places.h"

namespace mgc {

std::string testFile(std::string_view path) { return MGC_TEST_DIR "/" + std::string(path); }

std::string builtFile(std::string_view path) { return MGC_BUILD_DIR "/" + std::string(path); }

} // namespace mgc
