// saveWeights and saveGradients of Weights.h: from the shards of the ranks to Hugging Face files.
#include "runtime/base/Json.h"
#include "runtime/base/Philox.h"
#include "runtime/exec/Replacement.h"
#include "runtime/exec/Shard.h"
#include "runtime/exec/Weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <optional>

namespace mgc {

using plan::Bucket;
using plan::Parameter;
using plan::Plan;

namespace {

constexpr size_t kMaxProblems = 20;
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}};

const float *floatsAt(const std::byte *arena, int64_t byteOffset) {
  return reinterpret_cast<const float *>(arena + byteOffset);
}

const Bucket &bucketOf(const Plan &plan, const Parameter::Place &place) {
  return plan.stages[place.stage].buckets[place.bucket];
}

const float *valuesOf(const Plan &plan, const Parameter &parameter, const Holder &holder, Arenas arenas) {
  const Parameter::Place &place = parameter.places[holder.place];
  return floatsAt(arenas[holder.rank], bucketOf(plan, place).valueOffset) + beginOf(parameter, place);
}

Status verifyPresent(Arenas arenas, const Communicator *communicator) {
  for (size_t rank = 0; rank < arenas.size(); ++rank)
    if (!arenas[rank] && !communicator)
      return errorf("rank {} is not in this process: only a process that holds all ranks can save", rank);
  return Status::ok();
}

// --- Values ------------------------------------------------------------------------------------------------

bool areEqual(const Shard &shard, const float *a, const float *b) {
  for (int64_t row = 0; row < shard.rows; ++row, a += shard.rowStride, b += shard.rowStride)
    if (std::memcmp(a, b, size_t(shard.rowElements) * sizeof(float)) != 0)
      return false;
  return true;
}

// An element of a block: its number there, and how far in memory it is from where the block begins.
struct Element {
  int64_t number = 0, local = 0;
};

// The first element for which isBad(local).
template <typename IsBad> std::optional<Element> findElement(const Shard &shard, const IsBad &isBad) {
  for (int64_t row = 0; row < shard.rows; ++row)
    for (int64_t i = 0; i < shard.rowElements; ++i)
      if (isBad(row * shard.rowStride + i))
        return Element{row * shard.rowElements + i, row * shard.rowStride + i};
  return std::nullopt;
}

// A line for each rank whose copy of a block differs from its owner's; "nothing" is an empty string.
std::string compareBlock(const Plan &plan, const Parameter &parameter, const std::vector<Holder> &holders,
                         Arenas arenas) {
  const float *first = valuesOf(plan, parameter, holders[0], arenas);
  const Shard shard = shardOf(plan.mesh, parameter, holders[0].rank);
  std::vector<int64_t> ranks;
  std::string example;
  for (const Holder &holder : holders) {
    const float *other = valuesOf(plan, parameter, holder, arenas);
    if (areEqual(shard, first, other))
      continue;
    ranks.push_back(holder.rank);
    if (!example.empty())
      continue;
    const auto [number, at] = *findElement(
        shard, [&](int64_t local) { return std::memcmp(first + local, other + local, sizeof(float)) != 0; });
    example = fmt::format("element {} is {} on rank {} and {} on rank {}", number, first[at], holders[0].rank,
                          other[at], holder.rank);
  }
  if (ranks.empty())
    return "";
  return fmt::format("parameter {}: ranks {} differ from rank {}: {}", parameter.name, fmt::join(ranks, ", "),
                     holders[0].rank, example);
}

// Of a block's first holder; the others are compared with it.
std::string findNonFinite(const Plan &plan, const Parameter &parameter, const Holder &holder, Arenas arenas) {
  const float *values = valuesOf(plan, parameter, holder, arenas);
  const std::optional<Element> bad =
      findElement(shardOf(plan.mesh, parameter, holder.rank),
                  [&](int64_t local) { return !std::isfinite(values[local]); });
  return bad ? fmt::format("parameter {}: element {} on rank {} is {}", parameter.name, bad->number,
                           holder.rank, values[bad->local])
             : "";
}

Status reportProblems(const std::vector<std::string> &perParameter) {
  size_t problems = 0;
  std::string text = "the weights are not fit to be saved; nothing was";
  for (const std::string &problem : perParameter)
    if (!problem.empty() && ++problems <= kMaxProblems)
      text += problem;
  if (problems > kMaxProblems)
    text += fmt::format("\n  and {} more parameters", problems - kMaxProblems);
  return problems == 0 ? Status::ok() : Status::error(std::move(text));
}

Status verifyValues(const Plan &plan, Arenas arenas) {
  std::vector<std::string> perParameter(plan.parameters.size());
  forEachInParallel(int64_t(plan.parameters.size()), [&](int64_t i) {
    for (const std::vector<Holder> &holders : blocksOf(plan, plan.parameters[i]))
      for (const std::string &problem : {compareBlock(plan, plan.parameters[i], holders, arenas),
                                         findNonFinite(plan, plan.parameters[i], holders[0], arenas)})
        if (!problem.empty())
          perParameter[i] += "\n  " + problem;
  });
  return reportProblems(perParameter);
}

// --- Values that lie in several processes ------------------------------------------------------------------

// What a rank says of its copy of a block, in the place of the copy.
struct Digest {
  uint64_t hash = 0;
  int64_t badElement = -1; // the first that is not finite
  float badValue = 0;
};

Digest digestOf(const Plan &plan, const Parameter &parameter, const Holder &holder, Arenas arenas) {
  const float *values = valuesOf(plan, parameter, holder, arenas);
  const Shard shard = shardOf(plan.mesh, parameter, holder.rank);
  Digest digest;
  for (int64_t row = 0; row < shard.rows; ++row)
    digest.hash = digest.hash * 31 + hashName({reinterpret_cast<const char *>(values + row * shard.rowStride),
                                               size_t(shard.rowElements) * sizeof(float)});
  if (const auto bad = findElement(shard, [&](int64_t local) { return !std::isfinite(values[local]); }))
    digest.badElement = bad->number, digest.badValue = values[bad->local];
  return digest;
}

// What is wrong with a block, from the digests of its holders.
std::string compareDigests(const Parameter &parameter, const std::vector<Holder> &holders,
                           const std::vector<Digest> &digests) {
  std::vector<int64_t> ranks;
  for (size_t i = 1; i < holders.size(); ++i)
    if (digests[i].hash != digests[0].hash)
      ranks.push_back(holders[i].rank);
  std::string text;
  if (!ranks.empty())
    text = fmt::format("\n  parameter {}: ranks {} differ from rank {}", parameter.name,
                       fmt::join(ranks, ", "), holders[0].rank);
  if (digests[0].badElement >= 0)
    text += fmt::format("\n  parameter {}: element {} on rank {} is {}", parameter.name,
                        digests[0].badElement, holders[0].rank, digests[0].badValue);
  return text;
}

// Each rank's digests travel together, in the order of parameters and blocks.
Status verifyDigests(const Plan &plan, RankMemory &memory, Arenas arenas) {
  std::vector<std::vector<Digest>> byRank(arenas.size());
  const auto forEachBlock = [&](const auto &visit) {
    for (size_t i = 0; i < plan.parameters.size(); ++i)
      for (const std::vector<Holder> &holders : blocksOf(plan, plan.parameters[i]))
        visit(i, holders);
  };
  forEachBlock([&](size_t i, const std::vector<Holder> &holders) {
    for (const Holder &holder : holders)
      byRank[holder.rank].push_back(
          memory.isHere(holder.rank) ? digestOf(plan, plan.parameters[i], holder, arenas) : Digest());
  });
  std::vector<std::byte> scratch;
  for (size_t rank = 0; rank < byRank.size(); ++rank) {
    const std::span bytes = std::as_writable_bytes(std::span(byRank[rank]));
    MGC_ASSIGN(come, memory.fetch(int64_t(rank), bytes.data(), int64_t(bytes.size()), scratch));
    if (come && come != bytes.data() && !bytes.empty())
      std::memcpy(bytes.data(), come, bytes.size());
  }
  if (!memory.isWriter())
    return Status::ok();
  std::vector<std::string> perParameter(plan.parameters.size());
  std::vector<size_t> next(arenas.size());
  forEachBlock([&](size_t i, const std::vector<Holder> &holders) {
    std::vector<Digest> digests;
    for (const Holder &holder : holders)
      digests.push_back(byRank[holder.rank][next[holder.rank]++]);
    perParameter[i] += compareDigests(plan.parameters[i], holders, digests);
  });
  return reportProblems(perParameter);
}

// --- Tensors -----------------------------------------------------------------------------------------------

// The `span` elements of a rank from where its block of a parameter begins, which may be put together in `scratch`. Null
// in a process that does not write: it has sent what it has of them.
using Scratch = std::vector<std::byte>;
using Fetch =
    std::function<Result<const float *>(const Parameter &, const Holder &, int64_t span, Scratch &)>;

Result<std::vector<float>> gather(const Plan &plan, const FileTensor &tensor, const Fetch &fetch,
                                  bool isWriter) {
  std::vector<float> whole(isWriter ? size_t(tensor.elements()) : 0);
  Scratch scratch;
  for (const Parameter *parameter : tensor.parameters)
    for (const std::vector<Holder> &holders : blocksOf(plan, *parameter)) {
      Shard shard = shardOf(plan.mesh, *parameter, holders[0].rank);
      MGC_ASSIGN(block, fetch(*parameter, holders[0], shard.span(), scratch));
      if (isWriter)
        forEachRun(shard, [&](int64_t local, int64_t file, int64_t count) {
          std::memcpy(whole.data() + file, block + local, size_t(count) * sizeof(float));
        });
    }
  return whole;
}

// The part of a process that does not write.
Status sendTensors(const Plan &plan, std::span<const FileTensor> tensors, const Fetch &fetch) {
  for (const FileTensor &tensor : tensors)
    MGC_TRY(gather(plan, tensor, fetch, false).status());
  return Status::ok();
}

// A finished file of these tensors, still under its temporary name. One tensor at a time is in memory.
Result<SafetensorsWriter> writeTensors(const Plan &plan, std::span<const FileTensor> tensors,
                                       const std::string &path, const Fetch &fetch, float scale) {
  std::vector<TensorSpec> specs;
  for (const FileTensor &tensor : tensors)
    specs.push_back({tensor.name, ElementType::F32, tensor.shape});
  MGC_ASSIGN(writer, SafetensorsWriter::create(path, specs, kMetadata));
  for (const FileTensor &tensor : tensors) {
    MGC_ASSIGN(values, gather(plan, tensor, fetch, true));
    if (scale != 1.0f)
      for (float &value : values)
        value *= scale;
    MGC_TRY(writer.write(std::as_bytes(std::span(values))));
  }
  MGC_TRY(writer.finish());
  return writer;
}

// --- The directory -----------------------------------------------------------------------------------------

// Tensors for each file: as many as fit into maxBytes, at least one.
std::vector<std::vector<FileTensor>> splitByBytes(std::vector<FileTensor> tensors, int64_t maxBytes) {
  std::vector<std::vector<FileTensor>> files(1);
  int64_t bytes = 0;
  for (FileTensor &tensor : tensors) {
    int64_t size = tensor.elements() * int64_t(sizeof(float));
    if (!files.back().empty() && bytes + size > maxBytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += size;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

std::string indexText(const std::vector<std::vector<FileTensor>> &files,
                      const std::vector<std::string> &names) {
  nlohmann::json map = nlohmann::json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i)
    for (const FileTensor &tensor : files[i]) {
      map[tensor.name] = names[i];
      bytes += tensor.elements() * int64_t(sizeof(float));
    }
  nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<const float *> fetchFloats(RankMemory &memory, int64_t rank, int64_t byteOffset, int64_t elements,
                                  Scratch &scratch) {
  const std::byte *data = memory.isHere(rank) ? memory.arena(rank) + byteOffset : nullptr;
  MGC_ASSIGN(come, memory.fetch(rank, data, elements * int64_t(sizeof(float)), scratch));
  return reinterpret_cast<const float *>(come);
}

// The part [begin, begin + elements) of a sharded bucket's gradient: slice i lies with the rank whose
// coordinate along the data axes is i.
Result<const float *> assembleSlices(const Plan &plan, const Bucket &bucket, const Holder &holder,
                                     int64_t begin, int64_t elements, RankMemory &memory, Scratch &scratch) {
  std::vector<int64_t> group = plan::groupOf(plan.mesh, holder.rank, bucket.dataAxes);
  int64_t slice = bucket.elements / int64_t(group.size());
  scratch.resize(memory.isWriter() ? size_t(elements) * sizeof(float) : 0);
  Scratch piece;
  for (int64_t done = 0; done < elements;) {
    int64_t owner = (begin + done) / slice, inside = (begin + done) % slice;
    int64_t count = std::min(elements - done, slice - inside);
    const int64_t offset = bucket.gradientShardOffset + inside * int64_t(sizeof(float));
    MGC_ASSIGN(from, fetchFloats(memory, group[owner], offset, count, piece));
    if (from)
      std::memcpy(scratch.data() + done * int64_t(sizeof(float)), from, size_t(count) * sizeof(float));
    done += count;
  }
  return reinterpret_cast<const float *>(scratch.data());
}

} // namespace

Status saveWeights(const Plan &plan, Arenas arenas, const std::string &directory,
                   const SaveOptions &options) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas, options.communicator).at(directory));
  std::vector<FileTensor> tensors = fileTensors(plan);
  RankMemory memory(arenas, options.communicator);
  MGC_TRY(
      (memory.areAllHere() ? verifyValues(plan, arenas) : verifyDigests(plan, memory, arenas)).at(directory));
  Fetch fetch = [&](const Parameter &parameter, const Holder &holder, int64_t span, Scratch &scratch) {
    const Parameter::Place &place = parameter.places[holder.place];
    const int64_t offset =
        bucketOf(plan, place).valueOffset + beginOf(parameter, place) * int64_t(sizeof(float));
    return fetchFloats(memory, holder.rank, offset, span, scratch);
  };
  if (!memory.isWriter())
    return sendTensors(plan, tensors, fetch);
  MGC_TRY(makeDirectory(directory));
  std::vector<std::vector<FileTensor>> files = splitByBytes(std::move(tensors), options.maxShardBytes);
  std::vector<std::string> names = weightFileNames(directory, files.size());
  Replacement replacement(directory);
  if (Result<std::string> old = readFile(replacement.pathOf("config.json"), 1 << 30);
      !old.isOk() || *old != plan.modelConfig)
    MGC_TRY(replacement.addText("config.json", plan.modelConfig));
  for (size_t i = 0; i < files.size(); ++i) {
    MGC_ASSIGN(writer, writeTensors(plan, files[i], replacement.pathOf(names[i]), fetch, 1.0f));
    replacement.add(names[i], std::move(writer));
  }
  if (files.size() > 1)
    MGC_TRY(replacement.addText("model.safetensors.index.json", indexText(files, names)));
  return replacement.commit();
}

Status verifySavable(const std::string &directory) {
  MGC_TRY(makeDirectory(directory));
  std::filesystem::path file = std::filesystem::path(directory) / weightFileNames(directory, 1).front();
  Result<AtomicFile> probe = AtomicFile::create(file.string());
  return probe.isOk() ? Status::ok() : probe.status();
}

Status saveGradients(const Plan &plan, Arenas arenas, float scale, const std::string &file,
                     Communicator *communicator) {
  MGC_TRY(verifyArenas(plan, arenas));
  MGC_TRY(verifyPresent(arenas, communicator).at(file));
  std::vector<FileTensor> tensors = fileTensors(plan);
  RankMemory memory(arenas, communicator);
  Fetch fetch = [&](const Parameter &parameter, const Holder &holder, int64_t span, Scratch &scratch) {
    const Parameter::Place &place = parameter.places[holder.place];
    const Bucket &bucket = bucketOf(plan, place);
    const int64_t begin = beginOf(parameter, place);
    if (bucket.sharded)
      return assembleSlices(plan, bucket, holder, begin, span, memory, scratch);
    const int64_t offset = bucket.gradientOffset + begin * int64_t(sizeof(float));
    return fetchFloats(memory, holder.rank, offset, span, scratch);
  };
  if (!memory.isWriter())
    return sendTensors(plan, tensors, fetch);
  MGC_ASSIGN(writer, writeTensors(plan, tensors, file, fetch, scale));
  return writer.commit();
}

} // namespace mgc
