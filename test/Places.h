// Where files of the tests and of the build are. Places.cpp alone is compiled with these folders, so that the other objects are the same
// in every clone, for a compiler's cache.
#pragma once

#include <string>
#include <string_view>

namespace mgc {

/// A file or folder of test/.
std::string testFile(std::string_view path);

/// A file or folder that the build made.
std::string builtFile(std::string_view path);

} // namespace mgc
