// See MockData.h.
#include "runtime/data/MockData.h"

#include "runtime/random/Philox.h"

#include <algorithm>

namespace mgc {

namespace {

// x -> 5x + 7, and with probability 1/8 any of them instead.
class MockData : public DataSource {
public:
  MockData(const BatchShape &shape, const SampleForm &form, int64_t longest, uint64_t seed)
      : shape_(shape), form_(form), longest_(longest > 0 ? longest : shape.length),
        tokens_(uint32_t(std::clamp<int64_t>(shape.vocabulary, 1, 128))), seed_(seed),
        chain_(size_t(form.reads())) {}

  Status batch(int64_t step, GlobalBatch &out) override {
    MGC_TRY(beginBatch(step, shape_, out));
    const auto length = size_t(shape_.length);
    for (int64_t i = 0; i < shape_.samples; ++i) {
      drawChain(uint64_t(step * shape_.samples + i));
      form_.fill(chain_, std::span(out.tokens).subspan(size_t(i) * length, length),
                 std::span(out.labels).subspan(size_t(i) * length, length));
    }
    for (int64_t i = 0; i < static_cast<int64_t>(out.starts.size()); ++i)
      out.starts[i] = start(uint64_t(step * shape_.samples + i / shape_.length), i % shape_.length,
                            i % shape_.length ? out.starts[i - 1] : 0);
    return Status::ok();
  }

  std::string describe() const override { return fmt::format("made-up data over {} tokens", tokens_); }

private:
  void drawChain(uint64_t number) {
    uint32_t token = draw(number, 0)[1] % tokens_;
    for (size_t t = 0; t < chain_.size(); ++t) {
      chain_[t] = int32_t(token);
      PhiloxWords words = draw(number, uint32_t(t) + 1);
      token = words[0] % 8 == 0 ? words[1] % tokens_ : (5 * token + 7) % tokens_;
    }
  }
  // A document begins at half of the places of a short sequence, at four or so of those of a long one.
  int32_t start(uint64_t number, int64_t position, int32_t before) const {
    const auto span = uint32_t(std::max<int64_t>(2, std::min(shape_.length / 4, longest_)));
    const bool begins =
        position == 0 || position - before == longest_ || draw(number, uint32_t(position))[2] % span == 0;
    return begins ? int32_t(position) : before;
  }
  PhiloxWords draw(uint64_t number, uint32_t position) const {
    return philox({lowWord(number), highWord(number), position, lowWord(hashName("mock data"))},
                  philoxKey(seed_));
  }
  BatchShape shape_;
  SampleForm form_;
  int64_t longest_; // document
  uint32_t tokens_;
  uint64_t seed_;
  std::vector<int32_t> chain_; // of one sample
};

} // namespace

std::unique_ptr<DataSource> makeTokenChain(const BatchShape &shape, const SampleForm &form, int64_t longest,
                                           uint64_t seed) {
  return std::make_unique<MockData>(shape, form, longest, seed);
}

} // namespace mgc
