// safetensors files and Hugging Face checkpoints made of them.
//
// The format: 8 bytes little-endian header length, a JSON header
//   {"name": {"dtype", "shape", "data_offsets"}, ..., "__metadata__": {string: string}}
// then the data. The tensors cover the data exactly, without gaps or overlap.
#pragma once

#include "runtime/base/Checksum.h"
#include "runtime/base/File.h"
#include "runtime/io/Tensor.h"

#include <map>
#include <vector>

namespace mgc {

// One file, mapped. Everything the header claims is checked at open; what is found is inside the file.
class Safetensors {
public:
  static Result<Safetensors> open(const std::string &path);
  const std::string &path() const { return file_.path(); }
  const MappedFile &file() const { return file_; }
  const TensorView *find(const std::string &name) const; // null: not in it
  const std::map<std::string, TensorView> &tensors() const { return tensors_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  explicit Safetensors(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The tensors of a checkpoint: a safetensors file, or a directory with model.safetensors or, without that,
// model.safetensors.index.json and the files it names.
class Checkpoint {
public:
  // In the metadata of a file with gradients, which has the names and shapes of one with weights.
  static constexpr const char *kContent = "content", *kGradients = "gradients";

  static Result<Checkpoint> open(const std::string &path);
  const std::string &path() const { return path_; }
  bool holdsGradients() const;
  const TensorView *find(const std::string &name) const; // null: not in it
  std::vector<std::string> names() const;

private:
  std::string path_;
  std::vector<Safetensors> files_;
  std::map<std::string, const TensorView *> tensors_; // map nodes of files_: they stay when the files move
};

// model.safetensors.index.json: tensor name -> file name. File names are plain: an index reaches only its directory.
Result<std::map<std::string, std::string>> readCheckpointIndex(const std::string &path);

struct TensorSpec {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
};

// Writes a file piece by piece: the header at create(), then the bytes of the tensors in the order of
// `tensors`, in pieces of any size. Nothing stands under `path` before commit(); see AtomicFile.
class SafetensorsWriter {
public:
  static Result<SafetensorsWriter> create(const std::string &path, std::span<const TensorSpec> tensors,
                                          const std::map<std::string, std::string> &metadata = {},
                                          PageCache cache = PageCache::keep);
  Status write(std::span<const std::byte> bytes);
  Status finish(); // an error unless every byte of every tensor was written
  // The size of the finished file, header included.
  int64_t bytes() const { return bytes_; }
  const Checksum &checksum() const { return checksum_; }
  Status place(); // as AtomicFile's
  Status commit();

private:
  explicit SafetensorsWriter(AtomicFile file) : file_(std::move(file)) {}
  Status append(std::span<const std::byte> bytes);
  AtomicFile file_;
  Checksum checksum_;
  int64_t expected_ = 0, written_ = 0; // bytes of the tensors
  int64_t bytes_ = 0;
};

} // namespace mgc
