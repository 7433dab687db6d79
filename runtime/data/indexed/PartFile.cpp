// See PartFile.h.
#include "runtime/data/indexed/PartFile.h"

#include "runtime/base/File.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mgc {

static constexpr size_t kBuffer = 1 << 20;

static bool isStillAt(const std::string &path, const Descriptor &descriptor) {
  struct stat opened{}, named{};
  return ::fstat(descriptor.number(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// The file at `part`, for this process alone. Between open and lock another process may have placed or removed the file
// that was opened: the lock is then of a file that no longer has this name, and the next process would lock another.
static Result<Descriptor> openLocked(const std::string &part) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    Descriptor descriptor(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!descriptor.isOpen())
      return errorf("{}: cannot be written: {}", part, std::strerror(errno));
    if (!descriptor.lock())
      break;
    if (isStillAt(part, descriptor))
      return descriptor;
  }
  return errorf("{}: another process writes it; expected another --output-prefix", part);
}

Result<PartFile> PartFile::open(const std::string &path, int64_t size) {
  const std::string part = path + ".part";
  MGC_ASSIGN(descriptor, openLocked(part));
  struct stat facts{};
  if (::fstat(descriptor.number(), &facts) != 0 || facts.st_size < size)
    return errorf("{}: has {} bytes, expected the {} that an earlier run has written; --restart begins anew", part,
                  facts.st_size, size);
  if (::ftruncate(descriptor.number(), size) != 0 || ::lseek(descriptor.number(), size, SEEK_SET) != size)
    return errorf("{}: cannot be cut to {} bytes: {}", part, size, std::strerror(errno));
  return PartFile(path, part, std::move(descriptor), size);
}

Result<PartFile> PartFile::openUnnamed(const std::string &folder) {
  MGC_ASSIGN(descriptor, unnamedFileIn(folder));
  return PartFile("", folder + ": a file without a name", std::move(descriptor), 0);
}

std::string PartFile::readPath() const {
  return isUnnamed() ? fmt::format("/proc/self/fd/{}", descriptor_.number()) : partPath_;
}

Status PartFile::write(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  size_ += std::ssize(bytes);
  return buffer_.size() >= kBuffer ? flush() : Status::ok();
}

Status PartFile::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t written = ::write(descriptor_.number(), buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno != EINTR)
      return errorf("{}: cannot be written: {}", partPath_, std::strerror(errno));
    done += written > 0 ? static_cast<size_t>(written) : 0;
  }
  buffer_.clear();
  return Status::ok();
}

Status PartFile::sync() {
  MGC_TRY(flush());
  if (::fsync(descriptor_.number()) != 0)
    return errorf("{}: cannot be brought to disk: {}", partPath_, std::strerror(errno));
  return Status::ok();
}

Status PartFile::place() {
  MGC_TRY(sync());
  if (::rename(partPath_.c_str(), path_.c_str()) != 0)
    return errorf("{}: cannot get the name {}: {}", partPath_, path_, std::strerror(errno));
  return syncDirectoryOf(path_);
}

void PartFile::remove() {
  buffer_.clear();
  if (!isUnnamed())
    ::unlink(partPath_.c_str());
}

} // namespace mgc
