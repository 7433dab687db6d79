// Files as the readers and writers here see them: a read-only mapping of a whole file, and a file that
// appears under its name only when all of it is on disk.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Owned.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace mgc {

// The bytes of a regular file, mapped read-only; valid as long as the object (or what it was moved to) lives, and as
// long as no process truncates the file. Replacing the file by rename, as AtomicFile does, leaves them untouched.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string &path);
  const std::string &path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_.get(), data_ ? data_.get_deleter().bytes : 0}; }
  std::string_view text() const { return {reinterpret_cast<const char *>(data_.get()), bytes().size()}; }

private:
  MappedFile() = default;
  std::string path_;
  Mapping<const std::byte> data_;
};

// A regular file that is read piece by piece: what others do to it meanwhile is an error, never a signal.
class FileReader {
public:
  static Result<FileReader> open(const std::string &path);
  static Result<FileReader> adopt(Descriptor file, const std::string &path); // an open one; path: for messages
  const std::string &path() const { return path_; }
  int64_t size() const { return size_; } // when it was opened
  // Fills `out` with the bytes from `offset` on; an error unless the file still has all of them.
  Status read(int64_t offset, std::span<std::byte> out) const;

private:
  FileReader() = default;
  std::string path_;
  int64_t size_ = 0;
  Descriptor descriptor_;
};

// Whether the path names anything, be it a link to nothing, which is there and cannot be opened.
bool isThere(const std::filesystem::path &path);

// A regular file, also one of /proc, as a string; an error when it is longer than maxBytes.
Result<std::string> readFile(const std::string &path, int64_t maxBytes);

// How written bytes reach the disk: through the page cache, where soon readers find them, or past it (O_DIRECT). There
// the system works a quarter as long (docs/performance.md), and what others have in the cache stays. Where the file
// system cannot, it is as if `keep` was said.
enum class PageCache { keep, bypass };

// Writes to a temporary name next to `path`. commit() puts it under `path`, replacing what was there in one
// step; an object destroyed before that removes its temporary file, and what was under `path` stays as it
// was. A link is replaced, not what it leads to: checkpoints may be links into a store that others share, as in Hugging
// Face's cache. Refused: a read-only file, a directory, a device.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path, PageCache cache = PageCache::keep);
  const std::string &path() const { return path_; }
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status finish(); // on disk, still under the temporary name: no lack of space can show after this
  Status place();  // finish() if that was not called, then rename: others see it, but a power cut may undo the rename
  Status commit(); // place() and syncDirectoryOf(path)

private:
  AtomicFile() = default;
  Status fail(std::string_view what) const; // names path(), not the temporary file
  Status flush();
  Status writeThrough(const std::byte *data, size_t size);
  void useCache();
  struct Free {
    void operator()(std::byte *buffer) const { std::free(buffer); }
  };
  static void remove(const std::string &file);
  std::string path_;
  Owned<std::string, remove> temporary_; // its name
  Descriptor descriptor_;
  bool isDirect_ = false; // passes the page cache by: whole blocks, of the buffer
  std::unique_ptr<std::byte[], Free> buffer_;
  size_t buffered_ = 0;
};

// Whether an AtomicFile of a file of this name may have left the other one.
bool isTemporaryOf(std::string_view name, const std::string &other);
// Removes the temporary files of `path` that killed processes have left; for who knows that no other process writes it.
void removeUnfinished(const std::string &path);

// A file without a name in a folder: it is gone with the process, however that ends.
Result<Descriptor> unnamedFileIn(const std::string &folder);
// The folder that TMPDIR names, or /tmp; an error where there is none.
Result<std::string> temporaryFolder();

// The entries of a folder, in any order. An error when it cannot be read, after those that could be.
std::error_code forEachEntry(const std::string &folder,
                             const std::function<void(const std::filesystem::directory_entry &)> &visit);

// Appends all of it or, where the file can be cut, nothing. errno says why.
bool appendWhole(int descriptor, std::string_view bytes);

// Brings the renames and removals in the directory of `path` to disk.
Status syncDirectoryOf(const std::string &path);

// Writes `text` to `path` through an AtomicFile.
Status writeFileAtomically(const std::string &path, std::string_view text);

} // namespace mgc
