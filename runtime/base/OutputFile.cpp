// See OutputFile.h.
#include "runtime/base/OutputFile.h"

#include "runtime/base/File.h"

namespace mgc {

bool isSameFile(const std::filesystem::path &a, const std::filesystem::path &b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::weakly_canonical(a, ignored) == std::filesystem::weakly_canonical(b, ignored);
}

bool beginsWith(const std::string &path, std::string_view beginning) {
  std::string found(beginning.size(), '\0');
  const Result<FileReader> file = FileReader::open(path);
  return file.isOk() && file->size() >= std::ssize(found) &&
         file->read(0, std::as_writable_bytes(std::span(found))).isOk() && found == beginning;
}

Status verifyCreatable(const OutputKind &kind, const std::string &path, bool force) {
  std::error_code ignored;
  const bool isThere = std::filesystem::is_regular_file(path, ignored) && std::filesystem::file_size(path, ignored) > 0;
  if (isThere && !force && !kind.isOf(path))
    return errorf("{} {}: holds something else than {}, expected a new name or {}; --force replaces it all the same",
                  kind.flag, path, kind.name, kind.name);
  return AtomicFile::create(path).at(kind.flag).status();
}

} // namespace mgc
