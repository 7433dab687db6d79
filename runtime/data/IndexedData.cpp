// See IndexedData.h.
#include "runtime/data/IndexedData.h"

#include "runtime/data/BatchShape.h"

#include <algorithm>

namespace mgc {

namespace {

class IndexedData final : public DataSource {
public:
  IndexedData(std::unique_ptr<SampleSource> samples, const plan::Plan &plan, const SampleForm &form,
              const CorpusOptions &corpus)
      : samples_(std::move(samples)), shape_(plan), form_(form), padToken_(corpus.padToken),
        separates_(corpus.separatesSequences), numbers_(static_cast<size_t>(shape_.samples)) {
    identify("lengths of the sequences", fmt::format("the hash {:016x}", samples_->digest()));
    if (corpus.schedule != SampleOrderKind::cyclic)
      return;
    const BatchCut cut = batchCutOf(plan);
    cyclic_.emplace(samples_->samples(), cut, !corpus.noSharding);
    identify("order of the samples",
             fmt::format("cyclic in micro batches of {} on {} data-parallel ranks", cut.microBatch, cut.ranks));
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    MGC_TRY(choose(first));
    for (int64_t i = 0; i < shape_.samples; ++i) {
      MGC_TRY(samples_->read(numbers_[i], sample_));
      form_.fill(sample_.tokens, sampleOf(out.tokens, i), sampleOf(out.labels, i));
      hidePadding(sampleOf(out.tokens, i), sampleOf(out.labels, i));
      if (separates_ && !out.starts.empty())
        findSequences(sampleOf(out.starts, i));
    }
    return Status::ok();
  }

  std::string describe() const override { return samples_->describe(); }
  std::string describeBatch(int64_t first) override {
    if (const Status chosen = choose(first); !chosen.isOk())
      return chosen.message();
    return listSamples("", shape_.samples, [&](int64_t i) { return samples_->describeSample(numbers_[i]); });
  }
  std::optional<double> epochsOf(int64_t) const override { return std::nullopt; } // describe() says it

private:
  static BatchCut batchCutOf(const plan::Plan &plan) {
    return {plan.microBatchSize, plan.globalBatchSize / plan.microbatches / plan.microBatchSize};
  }

  Status choose(int64_t first) {
    if (cyclic_) {
      if (cyclic_->active() == 0)
        return errorf("{}: has fewer samples than the micro batches of all data-parallel ranks", describe());
      cyclic_->fill(first, numbers_);
      return Status::ok();
    }
    for (int64_t i = 0; i < shape_.samples; ++i)
      numbers_[i] = (first + i) % samples_->samples();
    return Status::ok();
  }

  // Padding has no loss, nor has a padding token of the data. The model reads token 0 there, as in Megatron-LM.
  void hidePadding(std::span<int32_t> tokens, std::span<int32_t> labels) const {
    const int64_t filled = std::ssize(sample_.tokens) - sample_.padding, behind = form_.reads() - form_.advance();
    for (int64_t i = std::max<int64_t>(0, filled - behind); i < std::ssize(labels) && sample_.padding > 0; ++i)
      labels[i] = kIgnoredLabel;
    if (!padToken_)
      return;
    for (size_t i = 0; i < tokens.size(); ++i) {
      labels[i] = labels[i] == *padToken_ ? kIgnoredLabel : labels[i];
      tokens[i] = tokens[i] == *padToken_ ? 0 : tokens[i];
    }
  }

  // The padding belongs to the last sequence.
  void findSequences(std::span<int32_t> starts) const {
    const int64_t length = std::ssize(starts), filled = std::ssize(sample_.tokens) - sample_.padding;
    int64_t begin = 0, place = 0;
    for (const int64_t end : sample_.ends) {
      for (const int64_t last = std::min(end, length); place < last; ++place)
        starts[place] = static_cast<int32_t>(begin);
      begin = place < std::min(filled, length) ? place : begin;
    }
    for (; place < length; ++place)
      starts[place] = static_cast<int32_t>(begin);
  }

  std::span<int32_t> sampleOf(std::vector<int32_t> &values, int64_t i) const {
    return std::span(values).subspan(static_cast<size_t>(i * shape_.length), static_cast<size_t>(shape_.length));
  }

  std::unique_ptr<SampleSource> samples_;
  BatchShape shape_;
  SampleForm form_;
  std::optional<int64_t> padToken_;
  bool separates_;
  std::optional<CyclicOrder> cyclic_;
  std::vector<int64_t> numbers_;
  SampleTokens sample_;
};

} // namespace

SampleCut sampleCutOf(const SampleForm &form, uint64_t seed, std::optional<int64_t> samples) {
  SampleCut cut;
  cut.length = form.advance(), cut.readsNext = form.reads() > form.advance();
  cut.seed = static_cast<uint32_t>(seed), cut.samples = samples;
  return cut;
}

std::unique_ptr<DataSource> makeIndexedData(std::unique_ptr<SampleSource> samples, const plan::Plan &plan,
                                            const SampleForm &form, const CorpusOptions &corpus) {
  return std::make_unique<IndexedData>(std::move(samples), plan, form, corpus);
}

} // namespace mgc
