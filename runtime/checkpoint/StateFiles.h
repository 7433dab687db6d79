// StateFiles: the files of one rank in a checkpoint, from the memory of the rank or from a copy of it.
#pragma once

#include "runtime/checkpoint/RankMemory.h"
#include "runtime/checkpoint/StateChunks.h"
#include "runtime/device/cpu/CpuMemory.h"
#include "runtime/io/Safetensors.h"

#include <memory>

namespace mgc {

// A file of a checkpoint, as its record lists it.
struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  std::string checksum; // Checksum::text
  bool operator==(const CheckpointFile &) const = default;
};

// In the metadata of each file: PyTorch's names.
inline constexpr const char *kShardingInfo = "DCP_SHARDING_INFO";
inline constexpr const char *kSavedOffsets = "saved_offsets";

// Bytes of the tensors in the largest file that a rank of the plan writes.
int64_t largestStateFile(const plan::Plan &plan);
// Bytes of the tensors in all files that the rank writes: StateFiles::bytes before there is an arena.
int64_t stateBytes(const plan::Plan &plan, int64_t rank);

class StateFiles {
public:
  // The files that the rank, whose arena is here, writes. The plan outlives them; the arenas' addresses stay.
  StateFiles(const plan::Plan &plan, int64_t rank, Arenas arenas);

  int64_t bytes() const { return bytes_; } // size of the tensors
  // The memory of copies, with all its pages, by so many threads. An error where there is none.
  Status reserveCopy(int threads);
  // Copies them to that memory, which is kept for the next copy.
  Status copy(int threads);
  enum class Source { memory, copy };
  // Writes all into the folder, and brings them to disk, names excepted. An error where a number is not finite: from such a state no
  // training goes on.
  Result<std::vector<CheckpointFile>> write(const std::string &folder, Source source) const;

private:
  struct File {
    std::string name;
    std::vector<TensorSpec> tensors;
    std::string shardingInfo;
    std::vector<std::span<const std::byte>> pieces; // the data, in the order of the file
    std::vector<size_t> tensorOfPiece;
  };
  static Result<CheckpointFile> write(const File &file, std::span<const std::span<const std::byte>> pieces,
                                      const std::string &folder);

  struct Part {
    std::span<const std::byte> from;
    size_t to = 0; // in the copy
  };
  std::vector<Part> partsOfCopy() const;

  std::vector<File> files_;
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte[], FreeCpuMemory> copy_; // all pieces, one after another
};

} // namespace mgc
