// See MockData.h.
#include "runtime/data/MockData.h"

#include "runtime/random/Philox.h"

#include <algorithm>

namespace mgc {

namespace {

// A token at a place of a sample, drawn.
PhiloxWords drawAt(uint64_t seed, uint64_t sample, uint32_t position) {
  return philox({lowWord(sample), highWord(sample), position, lowWord(hashName("mock data"))}, philoxKey(seed));
}

// How many tokens there are.
uint32_t tokensOf(const BatchShape &shape) { return uint32_t(std::clamp<int64_t>(shape.vocabulary, 1, 128)); }

uint32_t following(uint32_t token, uint32_t tokens) { return (5 * token + 7) % tokens; }

std::string describeMadeUp(int64_t first, const BatchShape &shape) {
  return fmt::format("samples {} to {} of made-up data", first, first + shape.samples - 1);
}

// x -> 5x + 7, and with probability 1/8 any of them instead.
class MockData : public DataSource {
public:
  MockData(const BatchShape &shape, const SampleForm &form, int64_t longest, uint64_t seed)
      : shape_(shape), form_(form), longest_(longest > 0 ? longest : shape.length), tokens_(tokensOf(shape)),
        seed_(seed), chain_(size_t(form.reads())) {}

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    const auto length = size_t(shape_.length);
    for (int64_t i = 0; i < shape_.samples; ++i) {
      drawChain(uint64_t(first + i));
      form_.fill(chain_, std::span(out.tokens).subspan(size_t(i) * length, length),
                 std::span(out.labels).subspan(size_t(i) * length, length));
    }
    for (int64_t i = 0; i < static_cast<int64_t>(out.starts.size()); ++i)
      out.starts[i] =
          start(uint64_t(first + i / shape_.length), i % shape_.length, i % shape_.length ? out.starts[i - 1] : 0);
    return Status::ok();
  }

  std::string describe() const override { return fmt::format("made-up data over {} tokens", tokens_); }
  std::string describeBatch(int64_t first) override { return describeMadeUp(first, shape_); }

private:
  void drawChain(uint64_t number) {
    uint32_t token = draw(number, 0)[1] % tokens_;
    for (size_t t = 0; t < chain_.size(); ++t) {
      chain_[t] = int32_t(token);
      PhiloxWords words = draw(number, uint32_t(t) + 1);
      token = words[0] % 8 == 0 ? words[1] % tokens_ : following(token, tokens_);
    }
  }
  // A document begins at half of the places of a short sequence, at four or so of those of a long one.
  int32_t start(uint64_t number, int64_t position, int32_t before) const {
    const auto span = uint32_t(std::max<int64_t>(2, std::min(shape_.length / 4, longest_)));
    const bool begins =
        position == 0 || position - before == longest_ || draw(number, uint32_t(position))[2] % span == 0;
    return begins ? int32_t(position) : before;
  }
  PhiloxWords draw(uint64_t number, uint32_t position) const { return drawAt(seed_, number, position); }
  BatchShape shape_;
  SampleForm form_;
  int64_t longest_; // document
  uint32_t tokens_;
  uint64_t seed_;
  std::vector<int32_t> chain_; // the chain of one sample
};

// Any tokens for the encoder; labels follow from them.
class MockPairs : public DataSource {
public:
  MockPairs(const BatchShape &shape, uint64_t seed) : shape_(shape), tokens_(tokensOf(shape)), seed_(seed) {}

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    for (int64_t i = 0; i < shape_.samples; ++i)
      fill(uint64_t(first + i),
           std::span(out.encoderTokens).subspan(size_t(i * shape_.encoderLength), size_t(shape_.encoderLength)),
           std::span(out.tokens).subspan(size_t(i * shape_.length), size_t(shape_.length)),
           std::span(out.labels).subspan(size_t(i * shape_.length), size_t(shape_.length)));
    return Status::ok();
  }

  std::string describe() const override { return fmt::format("made-up pairs over {} tokens", tokens_); }
  std::string describeBatch(int64_t first) override { return describeMadeUp(first, shape_); }

private:
  void fill(uint64_t sample, std::span<int32_t> source, std::span<int32_t> tokens, std::span<int32_t> labels) const {
    for (size_t t = 0; t < source.size(); ++t)
      source[t] = int32_t(drawAt(seed_, sample, uint32_t(t))[0] % tokens_);
    int32_t last = 0; // the decoder's first token
    for (size_t t = 0; t < labels.size(); ++t) {
      tokens[t] = last;
      labels[t] = last = int32_t(following(uint32_t(t < source.size() ? source[t] : last), tokens_));
    }
  }

  BatchShape shape_;
  uint32_t tokens_;
  uint64_t seed_;
};

} // namespace

std::unique_ptr<DataSource> makePairs(const BatchShape &shape, uint64_t seed) {
  return std::make_unique<MockPairs>(shape, seed);
}

std::unique_ptr<DataSource> makeTokenChain(const BatchShape &shape, const SampleForm &form, int64_t longest,
                                           uint64_t seed) {
  return std::make_unique<MockData>(shape, form, longest, seed);
}

} // namespace mgc
