// A file that grows under the name PATH.part, may be continued after a crash, and gets its own name in the end.
#pragma once

#include "runtime/base/Descriptor.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mgc {

class PartFile {
public:
  // Keeps the first `size` bytes of an earlier run: an error where it has fewer, or another process writes it now.
  static Result<PartFile> open(const std::string &path, int64_t size);
  // A file without a name on the file system of `folder`: it is gone with the process, however that ends. It cannot be placed.
  static Result<PartFile> openUnnamed(const std::string &folder);

  int64_t size() const { return size_; } // with what is not on disk yet
  std::string readPath() const;          // by which this process may open it for reading
  Status write(std::span<const std::byte> bytes);
  Status flush(); // writes buffered bytes into the file
  Status sync();  // flush(), then to disk
  Status place(); // sync(), then gives the file its name
  void remove();  // removes the part

private:
  PartFile(std::string path, std::string partPath, Descriptor descriptor, int64_t size)
      : path_(std::move(path)), partPath_(std::move(partPath)), descriptor_(std::move(descriptor)), size_(size) {}
  bool isUnnamed() const { return path_.empty(); }

  std::string path_, partPath_; // an unnamed file: empty, and its name in messages
  Descriptor descriptor_;
  int64_t size_;
  std::vector<std::byte> buffer_;
};

} // namespace mgc
