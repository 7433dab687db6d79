// Compressed files, by their first bytes.
#pragma once

#include "runtime/base/File.h"

namespace mgc {

// The file itself, or of one that gzip or zstd has compressed its contents, which lie in a file without a name in TMPDIR. Files of
// other programs (xz, bzip2) are errors that name what makes them text. An error names the file, where it is cut off too.
Result<FileReader> openDecompressed(const std::string &path);

} // namespace mgc
