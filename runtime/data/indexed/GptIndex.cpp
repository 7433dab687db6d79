// See GptIndex.h.
#include "runtime/data/indexed/GptIndex.h"

#include "runtime/base/Checked.h"
#include "runtime/base/MachineMemory.h"
#include "runtime/data/indexed/RandomOrder.h"
#include "runtime/io/Safetensors.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

namespace mgc {

namespace {

struct GptArrays {
  std::vector<int32_t> documents;
  std::vector<SampleBoundary> boundaries;
  std::vector<uint32_t> order;
};

// Megatron-LM counts in float32 where it keeps a partial sample: above 2^24 tokens one fewer, or one more of a single token,
// than there should be. The order of the samples depends on their number.
int64_t samplesOf(int64_t tokens, const SampleCut &cut) {
  const int64_t usable = tokens - cut.extra();
  if (!cut.keepsPartial)
    return usable / cut.length;
  return static_cast<int64_t>(std::ceil(static_cast<float>(usable) / static_cast<float>(cut.length)));
}

// The last epoch is separate where the samples that are needed of it are fewer than this.
int64_t manyOf(int64_t samplesOfEpoch) {
  constexpr double kMany = 0.80;
  return static_cast<int64_t>(kMany * static_cast<double>(samplesOfEpoch));
}

std::vector<int32_t> shuffledDocuments(SequenceRange range, int64_t epochs, bool hasSeparateEpoch,
                                       NumpyRandom &random) {
  std::vector<int32_t> documents(static_cast<size_t>(range.size() * epochs));
  for (size_t i = 0; i < documents.size(); ++i)
    documents[i] = static_cast<int32_t>(range.begin + static_cast<int64_t>(i) % range.size());
  const auto last = hasSeparateEpoch ? static_cast<size_t>(range.size()) : 0;
  random.shuffle(std::span(documents).first(documents.size() - last));
  random.shuffle(std::span(documents).last(last));
  return documents;
}

// Boundary i > 0 is at token i * length of all documents in their order; without a token to predict, behind the one before.
std::vector<SampleBoundary> boundariesOf(const UnalignedArray<int32_t> &lengths, const std::vector<int32_t> &documents,
                                         const SampleCut &cut, int64_t samples) {
  std::vector<SampleBoundary> boundaries(static_cast<size_t>(samples + 1));
  const int64_t behind = 1 - cut.extra();
  int64_t document = 0, begin = 0;
  for (int64_t i = 1; i <= samples; ++i) {
    const int64_t token = i * cut.length - behind;
    while (document < std::ssize(documents) && begin + lengths[documents[document]] <= token)
      begin += lengths[documents[document++]];
    if (document == std::ssize(documents)) // the last sample is a partial one
      boundaries[i] = {static_cast<int32_t>(document - 1),
                       lengths[documents.back()] - static_cast<int32_t>(cut.extra())};
    else
      boundaries[i] = {static_cast<int32_t>(document), static_cast<int32_t>(token - begin + behind)};
  }
  return boundaries;
}

std::vector<uint32_t> shuffledSamples(const SampleCounts &counts, NumpyRandom &random) {
  std::vector<uint32_t> order(static_cast<size_t>(counts.samples));
  std::iota(order.begin(), order.end(), uint32_t(0));
  const auto first = static_cast<size_t>(counts.beforeLast.value_or(counts.samples));
  random.shuffle(std::span(order).first(first));
  random.shuffle(std::span(order).subspan(first));
  return order;
}

int64_t tokensOf(const UnalignedArray<int32_t> &lengths, SequenceRange range) {
  int64_t tokens = 0;
  for (int64_t i = range.begin; i < range.end; ++i)
    tokens += lengths[i];
  return tokens;
}

Status verifySize(const SampleCounts &counts, SequenceRange range, std::string_view where) {
  constexpr int64_t mostDocuments = std::numeric_limits<int32_t>::max(),
                    mostSamples = std::numeric_limits<uint32_t>::max();
  const Checked documents = checkedMultiply(range.size(), counts.epochs);
  if (!documents || *documents > mostDocuments)
    return errorf("{}: {} sequences in {} epochs are more than {}; expected fewer epochs, or the files cut "
                  "into several",
                  where, range.size(), counts.epochs, mostDocuments);
  if (counts.samples > mostSamples)
    return errorf("{}: {} samples are more than {}; expected longer samples, fewer epochs, or the files cut "
                  "into several",
                  where, counts.samples, mostSamples);
  return Status::ok();
}

Result<SampleCounts> verifiedCounts(const UnalignedArray<int32_t> &lengths, SequenceRange range, const SampleCut &cut,
                                    std::string_view where) {
  MGC_ASSIGN(counts, countSamples(tokensOf(lengths, range), cut, where));
  MGC_TRY(verifySize(counts, range, where));
  return counts;
}

constexpr const char *kDocuments = "document_index", *kBoundaries = "sample_index", *kOrder = "shuffle_index";

std::vector<TensorSpec> tensorsOf(SequenceRange range, const SampleCounts &counts) {
  return {{kDocuments, ElementType::I32, {range.size() * counts.epochs}},
          {kBoundaries, ElementType::I32, {counts.samples + 1, 2}},
          {kOrder, ElementType::U32, {counts.samples}}};
}

// An index that is larger than what the machine has left would end the process without a word.
Status verifyMemory(SequenceRange range, const SampleCounts &counts, std::string_view where) {
  int64_t bytes = 0;
  for (const TensorSpec &array : tensorsOf(range, counts))
    bytes += *checkedProduct(array.shape) * sizeInBytes(array.type);
  for (const MemoryLimit &limit : memoryLimits())
    if (bytes > limit.available)
      return errorf("{}: the order of {} samples takes {} of memory, but {} has {}; expected fewer steps, "
                    "longer samples, or more memory",
                    where, counts.samples, inGib(bytes), limit.name, inGib(limit.available));
  return Status::ok();
}

Result<GptIndex> build(const UnalignedArray<int32_t> &lengths, SequenceRange range, const SampleCut &cut,
                       const SampleCounts &counts, std::string_view where) {
  MGC_TRY(verifyMemory(range, counts, where));
  NumpyRandom random(cut.seed);
  auto arrays = std::make_shared<GptArrays>();
  arrays->documents = shuffledDocuments(range, counts.epochs, counts.beforeLast.has_value(), random);
  arrays->boundaries = boundariesOf(lengths, arrays->documents, cut, counts.samples);
  arrays->order = shuffledSamples(counts, random);
  return GptIndex{counts, UnalignedArray(std::span<const int32_t>(arrays->documents)),
                  UnalignedArray(std::span<const SampleBoundary>(arrays->boundaries)),
                  UnalignedArray(std::span<const uint32_t>(arrays->order)), arrays};
}

// --- The file that keeps an index -------------------------------------------------------------------------------

std::string nameInCache(uint64_t digestOfLengths, SequenceRange range, const SampleCut &cut,
                        const SampleCounts &counts) {
  return fmt::format("gpt-{:016x}-{}-{}-s{}{}{}-e{}{}-r{}.safetensors", digestOfLengths, range.begin, range.end,
                     cut.length, cut.readsNext ? "" : "-alone", cut.keepsPartial ? "-partial" : "", counts.epochs,
                     counts.beforeLast ? "-separate" : "", cut.seed);
}

Status save(const std::string &path, SequenceRange range, const GptIndex &index) {
  const auto &arrays = *static_cast<const GptArrays *>(index.memory.get());
  MGC_ASSIGN(file, SafetensorsWriter::create(path, tensorsOf(range, index.counts)));
  MGC_TRY(file.write(std::as_bytes(std::span(arrays.documents))));
  MGC_TRY(file.write(std::as_bytes(std::span(arrays.boundaries))));
  MGC_TRY(file.write(std::as_bytes(std::span(arrays.order))));
  return file.commit();
}

Result<GptIndex> load(const std::string &path, SequenceRange range, const SampleCounts &counts) {
  MGC_ASSIGN(opened, Safetensors::open(path));
  auto file = std::make_shared<const Safetensors>(std::move(opened));
  for (const TensorSpec &spec : tensorsOf(range, counts)) {
    const TensorView *tensor = file->find(spec.name);
    if (!tensor || tensor->type != spec.type || tensor->shape != spec.shape)
      return errorf("{}: {} is missing or of another shape than {}", path, spec.name, shapeToString(spec.shape));
  }
  const auto bytesOf = [&](const char *name) { return file->find(name)->data.data(); };
  return GptIndex{counts,
                  {bytesOf(kDocuments), range.size() * counts.epochs},
                  {bytesOf(kBoundaries), counts.samples + 1},
                  {bytesOf(kOrder), counts.samples},
                  file};
}

} // namespace

Result<SampleCounts> countSamples(int64_t tokens, const SampleCut &cut, std::string_view where) {
  if (tokens <= 0)
    return errorf("{}: there are no tokens, expected at least {}", where, cut.reads());
  SampleCounts counts;
  counts.tokens = tokens;
  if (cut.samples) {
    const Checked needed = checkedAdd(checkedMultiply(*cut.samples, cut.length), cut.extra());
    if (!needed)
      return errorf("{}: {} samples of {} tokens are too many to be counted", where, *cut.samples, cut.length);
    counts.epochs = std::max<int64_t>(1, *needed / tokens + (*needed % tokens ? 1 : 0));
  }
  const Checked all = checkedMultiply(counts.epochs, tokens);
  if (!all)
    return errorf("{}: {} epochs of {} tokens are too many to be counted", where, counts.epochs, tokens);
  counts.samples = samplesOf(*all, cut);
  if (counts.samples < 1)
    return errorf("{}: there are {} tokens, expected at least {} for a sample: more data, or a larger part of --split",
                  where, tokens, cut.reads());
  if (counts.epochs > 1) {
    const int64_t before = ((counts.epochs - 1) * tokens - cut.extra()) / cut.length;
    if (*cut.samples - before < manyOf((tokens - cut.extra()) / cut.length))
      counts.beforeLast = before;
  }
  return counts;
}

Result<GptIndex> buildGptIndex(const UnalignedArray<int32_t> &lengths, SequenceRange range, const SampleCut &cut,
                               std::string_view where) {
  MGC_ASSIGN(counts, verifiedCounts(lengths, range, cut, where));
  return build(lengths, range, cut, counts, where);
}

Result<GptIndex> cachedGptIndex(const UnalignedArray<int32_t> &lengths, uint64_t digestOfLengths, SequenceRange range,
                                const SampleCut &cut, std::string_view where, const std::string &cache) {
  MGC_ASSIGN(counts, verifiedCounts(lengths, range, cut, where));
  if (cache.empty())
    return build(lengths, range, cut, counts, where);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::path(cache) / nameInCache(digestOfLengths, range, cut, counts);
  if (std::filesystem::exists(path, error)) {
    Result<GptIndex> kept = load(path, range, counts);
    return kept.isOk() ? std::move(kept)
                       : Result<GptIndex>(
                             errorf("{}; remove the file, which --data-cache-path keeps", kept.status().message()));
  }
  std::filesystem::create_directories(cache, error);
  if (error)
    return errorf("--data-cache-path {}: cannot be made: {}", cache, error.message());
  {
    MGC_ASSIGN(index, build(lengths, range, cut, counts, where));
    MGC_TRY(save(path, range, index));
  } // its memory goes: processes of one machine share the mapped file
  return load(path, range, counts);
}

} // namespace mgc
