// See StateFiles.h. File j of a rank has chunk j of each tensor: a safetensors file has a name once.
#include "runtime/checkpoint/StateFiles.h"

#include "runtime/checkpoint/StateTensors.h"
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mgc {

namespace {

// Bytes that stay in a core's cache while they are looked at, summed and given to the system.
constexpr size_t kBlock = 256 << 10;

constexpr size_t kCopied = 4 << 20; // bytes that a thread copies before it takes the next

// Whether no exponent is all ones: else its lowest bit carries over to the sign.
template <typename Bits> bool areFinite(std::span<const std::byte> bytes, Bits exponent) {
  const auto lowest = static_cast<Bits>(exponent & -exponent);
  Bits carries = 0;
  for (size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    carries |= static_cast<Bits>((bits & exponent) + lowest);
  }
  return carries >> (8 * sizeof(Bits) - 1) == 0;
}

bool areFinite(std::span<const std::byte> bytes, ElementType type) {
  return type == ElementType::F32    ? areFinite<uint32_t>(bytes, 0x7f800000)
         : type == ElementType::BF16 ? areFinite<uint16_t>(bytes, 0x7f80)
                                     : true;
}

} // namespace

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
          for (int64_t done = 0, count = 0; done < run.count; done += count) {
            count = std::min(run.count - done, buffer.runFrom(run.element + done));
            file.pieces.emplace_back(buffer.data(run.element + done), size_t(state.bytes(count)));
            file.tensorOfPiece.push_back(file.tensors.size() - 1);
          }
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

std::vector<StateFiles::Part> StateFiles::partsOfCopy() const {
  std::vector<Part> parts;
  size_t to = 0;
  for (const File &file : files_)
    for (std::span<const std::byte> piece : file.pieces)
      while (!piece.empty()) {
        const std::span<const std::byte> part = piece.first(std::min(kCopied, piece.size()));
        parts.push_back({part, to});
        to += part.size();
        piece = piece.subspan(part.size());
      }
  return parts;
}

Status StateFiles::reserveCopy(int threads) {
  MGC_ASSIGN(memory, allocateCpuMemory(bytes_));
  copy_ = {memory, FreeCpuMemory{bytes_}};
  const auto bytes = static_cast<size_t>(bytes_);
  parallelFor(threads, threads, static_cast<int64_t>((bytes + kCopied - 1) / kCopied), [&](int64_t number, int64_t) {
    const size_t begin = static_cast<size_t>(number) * kCopied;
    std::memset(copy_.get() + begin, 0, std::min(kCopied, bytes - begin));
  });
  return Status::ok();
}

Status StateFiles::copy(int threads) {
  if (!copy_)
    MGC_TRY(reserveCopy(threads));
  const std::vector<Part> parts = partsOfCopy();
  parallelFor(threads, threads, std::ssize(parts), [&](int64_t number, int64_t) {
    const Part &part = parts[size_t(number)];
    std::memcpy(copy_.get() + part.to, part.from.data(), part.from.size());
  });
  return Status::ok();
}

Result<CheckpointFile> StateFiles::write(const File &file, std::span<const std::span<const std::byte>> pieces,
                                         const std::string &folder) {
  MGC_ASSIGN(writer,
             SafetensorsWriter::create(folder + "/" + file.name, file.tensors,
                                       {{kShardingInfo, file.shardingInfo}, {"DCP_VERSION", "1.0"}, {"format", "pt"}},
                                       PageCache::bypass));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const TensorSpec &tensor = file.tensors[file.tensorOfPiece[i]];
    for (std::span<const std::byte> left = pieces[i]; !left.empty();) {
      const std::span<const std::byte> block = left.first(std::min(kBlock, left.size()));
      if (!areFinite(block, tensor.type))
        return errorf("{}: {} has values that are not finite, expected a state from which a training goes on", folder,
                      tensor.name);
      MGC_TRY(writer.write(block));
      left = left.subspan(block.size());
    }
  }
  MGC_TRY(writer.place());
  return CheckpointFile{file.name, writer.bytes(), writer.checksum().text()};
}

Result<std::vector<CheckpointFile>> StateFiles::write(const std::string &folder, Source source) const {
  std::vector<CheckpointFile> written;
  std::span<const std::byte> copied(copy_.get(), copy_ ? size_t(bytes_) : 0);
  for (const File &file : files_) {
    std::vector<std::span<const std::byte>> pieces = file.pieces;
    if (source == Source::copy)
      for (std::span<const std::byte> &piece : pieces) {
        piece = copied.first(piece.size());
        copied = copied.subspan(piece.size());
      }
    MGC_ASSIGN(entry, write(file, pieces, folder));
    written.push_back(std::move(entry));
  }
  return written;
}

} // namespace mgc
