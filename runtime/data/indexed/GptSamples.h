// The samples of a split: of one pair of files, or of several that are blended.
#pragma once

#include "runtime/data/indexed/GptIndex.h"
#include "runtime/data/indexed/IndexedTokens.h"

#include <functional>

namespace mgc {

// The tokens of one sample.
struct SampleTokens {
  std::vector<int32_t> tokens; // SampleCut::reads() of them
  int64_t padding = 0;         // number of padding tokens at the end, all 0
  // Where sequences of the file end in `tokens`, ascending; the last one where the padding begins. A sequence of no token
  // repeats the end before it.
  std::vector<int64_t> ends;
};

class SampleSource {
public:
  virtual ~SampleSource() = default;
  virtual int64_t samples() const = 0;
  // Sample i of the order in which training reads them.
  virtual Status read(int64_t i, SampleTokens &out) const = 0;
  virtual std::string describe() const = 0; // "corpus: 1200 samples of 128 tokens, 3 epochs"
  // Digest of the number and the lengths of all sequences of the files.
  virtual uint64_t digest() const = 0;
  // Where its tokens are, of an index that read() accepts: "corpus: sequence 12, tokens 30 to 94, sequence 7, tokens 0 to 63".
  virtual std::string describeSample(int64_t i) const = 0;
};

struct SampleOptions {
  SampleCut cut;
  int64_t vocabulary = INT32_MAX; // tokens are below it
  std::string cache = {};         // folder of indices; empty: none
};

// Sequences of one pair of files.
class GptSamples final : public SampleSource {
public:
  static Result<std::unique_ptr<GptSamples>> open(std::shared_ptr<const IndexedTokens> files, SequenceRange range,
                                                  const SampleOptions &options);
  int64_t samples() const override { return index_.counts.samples; }
  Status read(int64_t i, SampleTokens &out) const override;
  std::string describe() const override;
  uint64_t digest() const override { return files_->digestOfLengths(); }
  std::string describeSample(int64_t i) const override;
  const GptIndex &index() const { return index_; }

private:
  GptSamples(std::shared_ptr<const IndexedTokens> files, GptIndex index, const SampleOptions &options)
      : files_(std::move(files)), index_(std::move(index)), cut_(options.cut), vocabulary_(options.vocabulary) {}
  // The parts of documents that the sample has, in order: visit(number in the index, first token, token behind the last).
  using VisitPart = std::function<Status(int64_t document, int64_t begin, int64_t end)>;
  Status eachPart(int64_t i, const VisitPart &visit) const;
  Status readPart(int64_t document, int64_t begin, int64_t end, SampleTokens &out, int64_t &filled) const;

  std::shared_ptr<const IndexedTokens> files_;
  GptIndex index_;
  SampleCut cut_;
  int64_t vocabulary_;
};

// The data set that each sample of a blend comes from, and the sample's number in it.
struct BlendOrder {
  std::vector<int16_t> datasets;
  std::vector<int64_t> samples;
};
// At each place the data set that is farthest behind its weight (normalised here).
BlendOrder orderByWeights(std::span<const double> weights, int64_t size);
// The same until each data set has given all its samples; they are its weight.
BlendOrder orderOfAll(std::span<const int64_t> sizes);

// How many samples to build of a data set that a blend takes `weight` (normalised) of `size` samples of, and how many the
// blend counts of it.
int64_t samplesToBuild(int64_t size, double weight);
int64_t samplesToCount(int64_t size, double weight);

class BlendedSamples final : public SampleSource {
public:
  BlendedSamples(std::vector<std::unique_ptr<GptSamples>> parts, BlendOrder order)
      : parts_(std::move(parts)), order_(std::move(order)) {}
  int64_t samples() const override { return std::ssize(order_.datasets); }
  Status read(int64_t i, SampleTokens &out) const override;
  std::string describe() const override;
  uint64_t digest() const override;
  std::string describeSample(int64_t i) const override;
  const BlendOrder &order() const { return order_; }
  const GptSamples &part(size_t i) const { return *parts_[i]; }

private:
  std::vector<std::unique_ptr<GptSamples>> parts_;
  BlendOrder order_;
};

// The files of a run, as --data-path, --train-data-path .. and --split say them.
struct CorpusFiles {
  BlendWords blend;                                 // one blend for all splits, cut by `split`; or
  std::array<BlendWords, 3> perSplit;               // a blend per split; empty: there is no such split
  SplitFractions split;                             // shares of `blend`
  std::shared_ptr<const IndexedTokens> opened = {}; // files that are open already; null: none
  bool isPerSplit() const { return blend.prefixes.empty(); }
  std::vector<std::string> prefixes() const; // all of them
};

// The samples of one split; null where the files have no such split, or none of its sequences. `samples` of the options: how
// many are needed.
Result<std::unique_ptr<SampleSource>> openSplit(const CorpusFiles &files, Split split, const SampleOptions &options);

} // namespace mgc
