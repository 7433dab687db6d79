// StateReader: the tensors of a checkpoint, whichever ranks wrote their chunks; any range of elements can be read.
#pragma once

#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/CheckpointRecord.h"

namespace mgc {

// A tensor whose elements lie in chunks, which cover it exactly.
class ChunkedTensor {
public:
  struct Chunk {
    Box box;
    TensorView view;
  };
  ElementType type() const { return chunks_[0].view.type; }
  const std::vector<int64_t> &shape() const { return shape_; }
  // Elements [begin, begin + count), row-major, which lie inside.
  void read(int64_t begin, int64_t count, float *out) const;

private:
  friend class StateReader;
  // Reads elements from `begin` on, at most `count`, as many as lie together in the chunk; none: the chunk has not that element.
  int64_t readFrom(const Chunk &chunk, int64_t begin, int64_t count, float *out) const;
  std::string verify() const; // the error, or nothing
  std::vector<Chunk> chunks_;
  std::vector<int64_t> shape_;
};

class StateReader {
public:
  // Opens the files that the record of the checkpoint lists. Everything that their headers say is checked.
  static Result<StateReader> open(const std::string &folder, const CheckpointRecord &record);

  size_t fileCount() const { return files_.size(); }
  // Whether the file has the checksum of the record. It is read for this.
  Status verifyFile(size_t number) const;

  const std::string &path() const { return path_; }
  const std::map<std::string, ChunkedTensor> &tensors() const { return tensors_; }
  const ChunkedTensor *find(const std::string &name) const; // null: not in it

private:
  Status add(const Safetensors &file);
  std::string path_;
  std::vector<CheckpointFile> listed_;
  std::vector<Safetensors> files_;
  std::map<std::string, ChunkedTensor> tensors_;
};

} // namespace mgc
