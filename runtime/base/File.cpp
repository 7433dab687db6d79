#include "runtime/base/File.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <regex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace mgc {

namespace {

constexpr size_t kBufferBytes = 1 << 20;

// A multiple of the write size of most disks and file systems. Where it is too small the first write fails.
constexpr size_t kBlock = 4096;

constexpr size_t kPiece = 4096; // read size for a file whose size is not known

std::string reason(int error) { return std::generic_category().message(error); }

// Opens a regular file for reading and tells its size.
Status openRegular(const std::string &path, const Descriptor &file, size_t &size) {
  if (file.number() < 0)
    return errorf("{}: cannot open: {}", path, reason(errno));
  struct stat info;
  if (::fstat(file.number(), &info) != 0)
    return errorf("{}: cannot read: {}", path, reason(errno));
  if (!S_ISREG(info.st_mode))
    return errorf("{}: is {}, expected a regular file", path,
                  S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
  size = static_cast<size_t>(info.st_size);
  return Status::ok();
}

// The rename at the end would replace a device or a file that was made read-only to keep it, and fail on a directory
// after all the work.
Status verifyReplaceable(const std::string &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return Status::ok();
  if (S_ISREG(info.st_mode))
    return (info.st_mode & 0222) != 0
               ? Status::ok()
               : errorf("{}: is read-only, expected a file that may be replaced or a new name", path);
  return errorf("{}: is {}, expected a regular file or a new name", path,
                S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
}

} // namespace

Result<MappedFile> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: a pipe must not hang the open; it has no effect on regular files.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  MappedFile mapped;
  mapped.path_ = path;
  size_t size = 0;
  MGC_TRY(openRegular(path, file, size));
  if (size == 0)
    return mapped;
  void *data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED)
    return errorf("{}: cannot map: {}", path, reason(errno));
  mapped.data_ = {static_cast<const std::byte *>(data), {size}};
  return mapped;
}

Result<FileReader> FileReader::open(const std::string &path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)); // as MappedFile's
  return adopt(std::move(file), path);
}

Result<FileReader> FileReader::adopt(Descriptor file, const std::string &path) {
  size_t size = 0;
  MGC_TRY(openRegular(path, file, size));
  FileReader reader;
  reader.path_ = path;
  reader.size_ = static_cast<int64_t>(size);
  reader.descriptor_ = std::move(file);
  return reader;
}

Status FileReader::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_.number(), out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errorf("{}: cannot read: {}", path_, reason(errno));
    if (count == 0)
      return errorf("{}: ends before byte {}, expected {} bytes as when it was opened: it was truncated meanwhile",
                    path_, offset, size_);
    offset += count;
    out = out.subspan(static_cast<size_t>(count));
  }
  return Status::ok();
}

bool isThere(const std::filesystem::path &path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Result<std::string> readFile(const std::string &path, int64_t maxBytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)); // as MappedFile's
  size_t size = 0;
  MGC_TRY(openRegular(path, file, size));
  if (size > static_cast<size_t>(maxBytes))
    return errorf("{}: has {} bytes, expected at most {}", path, size, maxBytes);
  std::string text(std::min(size, static_cast<size_t>(maxBytes)) + 1, '\0'); // one more: the end is seen
  for (size_t filled = 0;;) {
    if (filled == text.size()) // is it all? Files of /proc say that they are empty
      text.resize(std::min(filled + kPiece, static_cast<size_t>(maxBytes) + 1));
    const ssize_t count = ::read(file.number(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errorf("{}: cannot read: {}", path, reason(errno));
    filled += static_cast<size_t>(count);
    if (filled > static_cast<size_t>(maxBytes))
      return errorf("{}: has more than {} bytes, expected at most as many", path, maxBytes);
    if (count == 0) {
      text.resize(filled);
      return text;
    }
  }
}

Status syncDirectoryOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  Descriptor directory(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a directory (EINVAL) and need no such thing.
  if (directory.number() < 0 || (::fsync(directory.number()) != 0 && errno != EINVAL))
    return errorf("{}: cannot bring the directory to disk: {}", parent.empty() ? "." : parent, reason(errno));
  return Status::ok();
}

Result<AtomicFile> AtomicFile::create(const std::string &path, PageCache cache) {
  static std::atomic<int> counter = 0;
  MGC_TRY(verifyReplaceable(path));
  AtomicFile file;
  file.path_ = path;
  file.buffer_.reset(static_cast<std::byte *>(std::aligned_alloc(kBlock, kBufferBytes)));
  if (!file.buffer_)
    return errorf("{}: cannot create: no memory for {} bytes", path, kBufferBytes);
  std::string name;
  do { // a name left behind by a killed process of the same id is passed over
    name = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
    file.descriptor_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (!file.descriptor_.isOpen() && errno == EEXIST);
  if (!file.descriptor_.isOpen())
    return file.fail("create");
  file.temporary_ = Owned<std::string, remove>(std::move(name));
  file.isDirect_ = cache == PageCache::bypass && ::fcntl(file.descriptor_.number(), F_SETFL, O_WRONLY | O_DIRECT) == 0;
  return file;
}

void AtomicFile::remove(const std::string &file) { ::unlink(file.c_str()); }

Status AtomicFile::fail(std::string_view what) const { return errorf("{}: cannot {}: {}", path_, what, reason(errno)); }

Status AtomicFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

// Past the page cache all goes through the buffer, whose blocks lie where they must; else what fills it goes by itself.
Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (buffered_ == kBufferBytes)
      MGC_TRY(flush());
    if (buffered_ == 0 && bytes.size() >= kBufferBytes && !isDirect_)
      return writeThrough(bytes.data(), bytes.size());
    const size_t count = std::min(kBufferBytes - buffered_, bytes.size());
    std::memcpy(buffer_.get() + buffered_, bytes.data(), count);
    buffered_ += count;
    bytes = bytes.subspan(count);
  }
  return Status::ok();
}

Status AtomicFile::flush() { return writeThrough(buffer_.get(), std::exchange(buffered_, 0)); }

void AtomicFile::useCache() {
  (void)::fcntl(descriptor_.number(), F_SETFL, O_WRONLY);
  isDirect_ = false;
}

Status AtomicFile::writeThrough(const std::byte *data, size_t size) {
  if (const size_t rest = size % kBlock; rest != 0 && isDirect_) { // the end
    MGC_TRY(writeThrough(data, size - rest));
    useCache();
    return writeThrough(data + size - rest, rest);
  }
  while (size > 0) {
    ssize_t written = ::write(descriptor_.number(), data, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0 && errno == EINVAL && isDirect_) { // its blocks are larger, or a write ended within one
      useCache();
      continue;
    }
    if (written < 0)
      return fail("write");
    data += written;
    size -= static_cast<size_t>(written);
  }
  return Status::ok();
}

Status AtomicFile::finish() {
  if (!descriptor_.isOpen())
    return Status::ok();
  MGC_TRY(flush());
  if (::fsync(descriptor_.number()) != 0)
    return fail("bring to disk");
  return ::close(descriptor_.release()) != 0 ? fail("close") : Status::ok();
}

Status AtomicFile::place() {
  MGC_TRY(finish());
  if (::rename(temporary_.get().c_str(), path_.c_str()) != 0)
    return fail("rename a temporary file to it");
  temporary_.release();
  return Status::ok();
}

Status AtomicFile::commit() {
  MGC_TRY(place());
  return syncDirectoryOf(path_);
}

bool isTemporaryOf(std::string_view name, const std::string &other) {
  static const std::regex ending(R"(\.tmp-\d+-\d+)");
  return other.starts_with(name) && std::regex_match(other.begin() + std::ssize(name), other.end(), ending);
}

std::error_code forEachEntry(const std::string &folder,
                             const std::function<void(const std::filesystem::directory_entry &)> &visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) // ++ throws
    visit(*entry);
  return error;
}

// O_TMPFILE is not of every file system: there the file has a name for a moment.
Result<Descriptor> unnamedFileIn(const std::string &folder) {
  Descriptor descriptor(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!descriptor.isOpen()) {
    std::string name = folder + "/mgc-unnamed-XXXXXX";
    descriptor = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (descriptor.isOpen())
      ::unlink(name.c_str());
  }
  if (!descriptor.isOpen())
    return errorf("{}: no file can be made there: {}", folder, reason(errno));
  return descriptor;
}

Result<std::string> temporaryFolder() {
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error).string();
  if (error)
    return errorf("TMPDIR: {}; expected a folder", error.message());
  return folder;
}

bool appendWhole(int descriptor, std::string_view bytes) {
  const off_t before = ::lseek(descriptor, 0, SEEK_END);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      const int error = errno;
      if (done > 0 && before >= 0)
        (void)!::ftruncate(descriptor, before);
      errno = error;
      return false;
    }
    done += static_cast<size_t>(written);
  }
  return true;
}

void removeUnfinished(const std::string &path) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string();
  forEachEntry(file.has_parent_path() ? file.parent_path().string() : ".", [&](const auto &entry) {
    std::error_code ignored;
    if (isTemporaryOf(name, entry.path().filename().string()))
      std::filesystem::remove(entry.path(), ignored);
  });
}

Status writeFileAtomically(const std::string &path, std::string_view text) {
  MGC_ASSIGN(file, AtomicFile::create(path));
  MGC_TRY(file.write(text));
  return file.commit();
}

} // namespace mgc
