// See GptSamples.h.
#include "runtime/data/indexed/GptSamples.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mgc {

// --- One pair of files ------------------------------------------------------------------------------------------

Result<std::unique_ptr<GptSamples>> GptSamples::open(std::shared_ptr<const IndexedTokens> files, SequenceRange range,
                                                     const SampleOptions &options) {
  if (!isInteger(files->type()))
    return errorf("{}: says that the tokens are {}, expected integers", files->indexPath(), toString(files->type()));
  const std::string where = fmt::format("{}, sequences {} to {}", files->prefix(), range.begin, range.end);
  MGC_ASSIGN(index,
             cachedGptIndex(files->lengths(), files->digestOfLengths(), range, options.cut, where, options.cache));
  return std::unique_ptr<GptSamples>(new GptSamples(std::move(files), std::move(index), options));
}

Status GptSamples::readPart(int64_t document, int64_t begin, int64_t end, SampleTokens &out, int64_t &filled) const {
  const int64_t sequence = index_.documents[document];
  if (sequence < 0 || sequence >= files_->sequences() || begin < 0 || end > files_->lengths()[sequence] ||
      end - begin > cut_.reads() - filled)
    return errorf("the index of {} names tokens {} to {} of sequence {}, which are not there; remove the file in "
                  "--data-cache-path",
                  files_->prefix(), begin, end, sequence);
  if (end > begin) {
    MGC_TRY(files_->read(sequence, begin, vocabulary_,
                         std::span(out.tokens).subspan(static_cast<size_t>(filled), static_cast<size_t>(end - begin))));
    filled += end - begin;
  }
  out.ends.push_back(filled);
  return Status::ok();
}

Status GptSamples::eachPart(int64_t i, const VisitPart &visit) const {
  const int64_t sample = index_.order[i];
  if (sample >= samples())
    return errorf("the index of {} has {} at place {}, expected a sample below {}; remove the file in "
                  "--data-cache-path",
                  files_->prefix(), sample, i, samples());
  const SampleBoundary first = index_.boundaries[sample], last = index_.boundaries[sample + 1];
  if (first.document < 0 || last.document >= index_.documents.size() || last.document < first.document)
    return errorf("the index of {} has sample {} from document {} to {}, expected 0 to {}; remove the file in "
                  "--data-cache-path",
                  files_->prefix(), sample, first.document, last.document, index_.documents.size() - 1);
  for (int64_t document = first.document; document <= last.document; ++document) {
    const int64_t begin = document == first.document ? first.offset : 0;
    const int64_t sequence = index_.documents[document];
    const bool isThere = 0 <= sequence && sequence < files_->sequences(); // else it is no part: readPart
    const int64_t end = document == last.document ? last.offset + cut_.extra()
                        : isThere                 ? files_->lengths()[sequence]
                                                  : 0;
    MGC_TRY(visit(document, begin, end));
  }
  return Status::ok();
}

Status GptSamples::read(int64_t i, SampleTokens &out) const {
  out.tokens.assign(static_cast<size_t>(cut_.reads()), 0);
  out.ends.clear();
  int64_t filled = 0;
  MGC_TRY(eachPart(
      i, [&](int64_t document, int64_t begin, int64_t end) { return readPart(document, begin, end, out, filled); }));
  out.padding = cut_.reads() - filled;
  return Status::ok();
}

std::string GptSamples::describeSample(int64_t i) const {
  std::string text;
  const Status status = eachPart(i, [&](int64_t document, int64_t begin, int64_t end) {
    if (end > begin)
      text += fmt::format(", sequence {}, tokens {} to {}", index_.documents[document], begin, end - 1);
    return Status::ok();
  });
  return status.isOk() ? fmt::format("{}: {}", files_->prefix(), text.empty() ? "nothing" : text.substr(2))
                       : status.message();
}

std::string GptSamples::describe() const {
  return fmt::format("{}: {} samples of {} tokens in {} epoch{}", files_->prefix(), samples(), cut_.length,
                     index_.counts.epochs, index_.counts.epochs == 1 ? "" : "s");
}

// --- Blends -----------------------------------------------------------------------------------------------------

template <typename HasLeft>
static BlendOrder orderBy(std::span<const double> weights, int64_t size, const HasLeft &hasLeft) {
  BlendOrder order;
  order.datasets.reserve(static_cast<size_t>(size));
  order.samples.reserve(static_cast<size_t>(size));
  std::vector<int64_t> taken(weights.size());
  for (int64_t n = 0; n < size; ++n) {
    const auto place = static_cast<double>(std::max<int64_t>(n, 1));
    size_t chosen = 0;
    double farthest = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < weights.size(); ++i) {
      const double behind = weights[i] * place - static_cast<double>(taken[i]);
      if (behind > farthest && hasLeft(i, taken[i]))
        farthest = behind, chosen = i;
    }
    order.datasets.push_back(static_cast<int16_t>(chosen));
    order.samples.push_back(taken[chosen]++);
  }
  return order;
}

BlendOrder orderByWeights(std::span<const double> weights, int64_t size) {
  return orderBy(normalized(weights), size, [](size_t, int64_t) { return true; });
}

BlendOrder orderOfAll(std::span<const int64_t> sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes)
    total += size;
  std::vector<double> weights;
  for (const int64_t size : sizes)
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  return orderBy(weights, total, [&](size_t i, int64_t taken) { return taken < sizes[i]; });
}

int64_t samplesToCount(int64_t size, double weight) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(size) * weight));
}

int64_t samplesToBuild(int64_t size, double weight) {
  constexpr double kSurplus = 0.005; // Megatron-LM's --mid-level-dataset-surplus
  return static_cast<int64_t>(std::ceil(static_cast<double>(samplesToCount(size, weight)) * (1 + kSurplus)));
}

Status BlendedSamples::read(int64_t i, SampleTokens &out) const {
  return parts_[static_cast<size_t>(order_.datasets[i])]->read(order_.samples[i], out);
}

std::string BlendedSamples::describeSample(int64_t i) const {
  return parts_[static_cast<size_t>(order_.datasets[i])]->describeSample(order_.samples[i]);
}

std::string BlendedSamples::describe() const {
  std::vector<int64_t> counts(parts_.size());
  for (const int16_t dataset : order_.datasets)
    ++counts[static_cast<size_t>(dataset)];
  std::string text = fmt::format("{} samples of a blend:", samples());
  for (size_t i = 0; i < parts_.size(); ++i)
    text += fmt::format("{} {} of {}", i ? "," : "", counts[i], parts_[i]->describe());
  return text;
}

// The digest follows from those of the parts in their order.
uint64_t BlendedSamples::digest() const {
  std::string text;
  for (const auto &part : parts_)
    text += fmt::format("{:016x} ", part->digest());
  return hashName(text);
}

// --- Splits -----------------------------------------------------------------------------------------------------

std::vector<std::string> CorpusFiles::prefixes() const {
  std::vector<std::string> all = blend.prefixes;
  for (const BlendWords &words : perSplit)
    all.insert(all.end(), words.prefixes.begin(), words.prefixes.end());
  return all;
}

// Null where the split has no sequences.
static Result<std::unique_ptr<GptSamples>> openPart(const CorpusFiles &files, Split split, const std::string &prefix,
                                                    const SampleOptions &options) {
  std::shared_ptr<const IndexedTokens> tokens = files.opened;
  if (!tokens || tokens->prefix() != prefix) {
    MGC_ASSIGN(opened, IndexedTokens::open(prefix));
    tokens = std::make_shared<const IndexedTokens>(std::move(opened));
  }
  const auto range = files.isPerSplit() ? SequenceRange{0, tokens->sequences()}
                                        : files.split.of(split, tokens->sequences()).value_or(SequenceRange());
  if (range.size() <= 0)
    return std::unique_ptr<GptSamples>();
  return GptSamples::open(std::move(tokens), range, options);
}

Result<std::unique_ptr<SampleSource>> openSplit(const CorpusFiles &files, Split split, const SampleOptions &options) {
  const BlendWords &words = files.isPerSplit() ? files.perSplit[static_cast<size_t>(split)] : files.blend;
  // A split of its own with one prefix is that prefix, weighted or not.
  const bool isPlain = words.prefixes.size() == 1 && (words.weights.empty() || files.isPerSplit());
  if (words.prefixes.empty() || (!files.isPerSplit() && !files.split.parts[static_cast<size_t>(split)]))
    return std::unique_ptr<SampleSource>();
  if (words.prefixes.size() > std::numeric_limits<int16_t>::max())
    return errorf("the blend has {} prefixes, expected at most {}", words.prefixes.size(),
                  std::numeric_limits<int16_t>::max());
  const std::vector<double> weights = normalized(words.weights);
  if (!weights.empty() && !isPlain && !options.cut.samples)
    return errorf("a blend by weights has as many samples as are asked for; expected their number");
  std::vector<std::unique_ptr<GptSamples>> parts;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < words.prefixes.size(); ++i) {
    SampleOptions ofPart = options;
    if (!isPlain)
      ofPart.cut.samples =
          weights.empty() ? std::nullopt : std::optional(samplesToBuild(*options.cut.samples, weights[i]));
    MGC_ASSIGN(part, openPart(files, split, words.prefixes[i], ofPart));
    if (!part && isPlain)
      return std::unique_ptr<SampleSource>();
    if (!part)
      return errorf("{}: has no sequences in the split {}; expected a larger part of --split, or a file with more "
                    "sequences",
                    words.prefixes[i], toString(split));
    sizes.push_back(part->samples());
    parts.push_back(std::move(part));
  }
  if (isPlain)
    return std::unique_ptr<SampleSource>(std::move(parts.front()));
  const auto blended = [&](BlendOrder order) {
    return std::unique_ptr<SampleSource>(std::make_unique<BlendedSamples>(std::move(parts), std::move(order)));
  };
  if (!weights.empty()) {
    int64_t size = 0;
    for (const double weight : weights)
      size += samplesToCount(*options.cut.samples, weight);
    return blended(orderByWeights(weights, size));
  }
  if (!options.cut.samples)
    return blended(orderOfAll(sizes));
  int64_t total = 0;
  for (const int64_t size : sizes)
    total += size;
  const std::vector<double> byLength(sizes.begin(), sizes.end());
  return blended(orderByWeights(byLength, std::min(total, *options.cut.samples)));
}

} // namespace mgc
