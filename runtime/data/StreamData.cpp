// See StreamData.h.
#include "runtime/data/StreamData.h"

#include "runtime/data/SampleOrder.h"

namespace mgc {

namespace {

class StreamData : public DataSource {
public:
  StreamData(TokenReader tokens, int64_t rows, const StreamOptions &options)
      : tokens_(std::move(tokens)), shape_(options.shape), form_(options.form), seed_(options.seed),
        rowLength_(tokens_.size() / rows), perRow_(1 + (rowLength_ - form_.reads()) / form_.advance()),
        samples_(rows * perRow_), scratch_(size_t(form_.reads())) {}

  // Neither a wrong token nor a document that is too long should show in step 5000.
  Status scan(const DocumentRule &rule) const {
    if (!rule.endToken || rule.longest == 0)
      return tokens_.scan();
    int64_t length = 0; // length of the document so far, in its sample
    return tokens_.scan([&](int64_t position, int64_t token) {
      const int64_t place = position % rowLength_;
      length = place % form_.advance() == 0 ? 1 : length + 1;
      if (length > rule.longest && place / form_.advance() < perRow_)
        return errorf("{}: token {}: the document has more than {} tokens, for which the model has learned "
                      "positions; expected shorter documents, each with token {} at its end",
                      tokens_.name(), position, rule.longest, *rule.endToken);
      length = token == *rule.endToken ? 0 : length;
      return Status::ok();
    });
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    for (int64_t i = 0; i < shape_.samples; ++i) {
      MGC_TRY(tokens_.read(beginOf(sampleAt(first, i)), form_.reads(), scratch_.data()));
      form_.fill(scratch_, sampleOf(out.tokens, i), sampleOf(out.labels, i));
    }
    return Status::ok();
  }

  std::string describe() const override {
    return fmt::format("{}: {} samples of {} tokens", tokens_.name(), samples_, shape_.length);
  }
  std::string describeBatch(int64_t first) override {
    return listSamples(tokens_.name(), shape_.samples, [&](int64_t i) {
      const int64_t sample = sampleAt(first, i), begin = beginOf(sample);
      return fmt::format("sample {}, tokens {} to {}", sample, begin, begin + form_.reads() - 1);
    });
  }
  std::optional<double> epochsOf(int64_t samples) const override { return double(samples) / double(samples_); }

private:
  int64_t sampleAt(int64_t first, int64_t i) const {
    const int64_t number = first + i;
    return shuffledSample(seed_, number / samples_, number % samples_, samples_);
  }
  int64_t beginOf(int64_t sample) const { // in the file
    return sample / perRow_ * rowLength_ + sample % perRow_ * form_.advance();
  }
  std::span<int32_t> sampleOf(std::vector<int32_t> &values, int64_t i) const {
    return std::span(values).subspan(size_t(i * shape_.length), size_t(shape_.length));
  }

  TokenReader tokens_;
  BatchShape shape_;
  SampleForm form_;
  uint64_t seed_;
  int64_t rowLength_, perRow_, samples_;
  std::vector<int32_t> scratch_;
};

} // namespace

Result<std::unique_ptr<DataSource>> makeStreamData(TokenReader tokens, int64_t rows, const StreamOptions &options) {
  const int64_t rowLength = rows > 0 ? tokens.size() / rows : 0, least = options.form.reads();
  if (rowLength < least)
    return errorf("{}: has {} tokens{}, expected at least {}: {}", tokens.name(), rowLength,
                  rows > 1 ? " in a row" : "", least, options.form.describe());
  auto data = std::make_unique<StreamData>(std::move(tokens), rows, options);
  MGC_TRY(data->scan(options.rule));
  return std::unique_ptr<DataSource>(std::move(data));
}

} // namespace mgc
