// See StateFiles.h. File j of a rank has chunk j of each tensor: a safetensors file has a name once.
#include "runtime/checkpoint/StateFiles.h"

#include "runtime/base/Json.h"
#include "runtime/checkpoint/StateTensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mgc {

StateFiles::StateFiles(const plan::Plan &plan, int64_t rank, Arenas arenas) {
  const std::vector<TensorChunks> tensors = chunksOf(plan, rank);
  const plan::StagePlan &stage = plan.stages[plan::stageOf(plan.mesh, rank)];
  size_t count = 0;
  for (const TensorChunks &tensor : tensors)
    count = std::max(count, tensor.chunks.size());
  for (size_t number = 0; number < count; ++number) {
    File &file = files_.emplace_back();
    file.name = fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", rank + 1, number + 1, count);
    nlohmann::json info = nlohmann::json::object();
    for (const TensorChunks &tensor : tensors) {
      if (number >= tensor.chunks.size())
        continue;
      const StateChunk &chunk = tensor.chunks[number];
      for (const StateTensor &state : stateOf(plan, tensor.tensor)) {
        file.tensors.push_back({state.name, state.type, chunk.box.sizes});
        info[state.name][kSavedOffsets] = chunk.box.offsets;
        for (const StateRun &run : chunk.runs) {
          const BucketBuffer buffer(plan, stage.buckets[run.bucket], rank, state.buffer, arenas);
          file.pieces.emplace_back(buffer.data(run.element), size_t(state.bytes(run.count)));
        }
        bytes_ += state.bytes(chunk.box.elements());
      }
    }
    file.shardingInfo = info.dump();
  }
}

// Bytes of the tensors in each file of the rank.
static std::vector<int64_t> stateFileSizes(const plan::Plan &plan, int64_t rank) {
  std::vector<int64_t> files;
  for (const TensorChunks &tensor : chunksOf(plan, rank)) {
    files.resize(std::max(files.size(), tensor.chunks.size()));
    for (size_t number = 0; number < tensor.chunks.size(); ++number)
      for (const StateTensor &state : stateOf(plan, tensor.tensor))
        files[number] += state.bytes(tensor.chunks[number].box.elements());
  }
  return files;
}

int64_t largestStateFile(const plan::Plan &plan) {
  int64_t largest = 0;
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
    for (int64_t bytes : stateFileSizes(plan, rank))
      largest = std::max(largest, bytes);
  return largest;
}

int64_t stateBytes(const plan::Plan &plan, int64_t rank) {
  const std::vector<int64_t> files = stateFileSizes(plan, rank);
  return std::accumulate(files.begin(), files.end(), int64_t(0));
}

void StateFiles::copy() {
  copy_.resize(size_t(bytes_));
  std::byte *next = copy_.data();
  for (const File &file : files_)
    for (std::span<const std::byte> piece : file.pieces) {
      std::memcpy(next, piece.data(), piece.size());
      next += piece.size();
    }
}

Result<CheckpointFile> StateFiles::write(const File &file, std::span<const std::span<const std::byte>> pieces,
                                         const std::string &folder) {
  MGC_ASSIGN(writer, SafetensorsWriter::create(
                         folder + "/" + file.name, file.tensors,
                         {{kShardingInfo, file.shardingInfo}, {"DCP_VERSION", "1.0"}, {"format", "pt"}}));
  for (std::span<const std::byte> piece : pieces)
    MGC_TRY(writer.write(piece));
  MGC_TRY(writer.place());
  return CheckpointFile{file.name, writer.bytes(), writer.checksum().text()};
}

Result<std::vector<CheckpointFile>> StateFiles::write(const std::string &folder, Source source) const {
  std::vector<CheckpointFile> written;
  std::span<const std::byte> copied = copy_;
  for (const File &file : files_) {
    std::span<const std::span<const std::byte>> pieces = file.pieces;
    std::span<const std::byte> own;
    if (source == Source::copy) {
      size_t bytes = 0;
      for (std::span<const std::byte> piece : file.pieces)
        bytes += piece.size();
      own = copied.first(bytes);
      copied = copied.subspan(bytes);
      pieces = {&own, 1};
    }
    MGC_ASSIGN(entry, write(file, pieces, folder));
    written.push_back(std::move(entry));
  }
  return written;
}

} // namespace mgc
