// combine: sums and maxima of sources on one device.
#include "CudaTest.h"

#include "runtime/random/Philox.h"

#include <random>

using namespace mgc;
using namespace mgc::test;

namespace {

class Combine : public CudaTest {
protected:
  // `shift`: elements from an aligned address to the first source.
  template <typename T>
  std::vector<T> combined(mgc_reduce reduce, mgc_type type, const std::vector<std::vector<T>> &values,
                          int64_t shift = 0) {
    const auto elements = int64_t(values[0].size());
    std::vector<plugin::DeviceBuffer> buffers;
    std::vector<mgc_address> sources;
    for (const std::vector<T> &source : values) {
      const int64_t begin = buffers.empty() ? shift : 0;
      buffers.push_back(must(device().allocate((elements + begin) * int64_t(sizeof(T)))));
      sources.push_back(buffers.back().address() + begin * sizeof(T));
      upload(sources.back(), source);
    }
    const mgc_address to = sources[sources.size() / 2]; // one of the sources
    EXPECT_EQ(errorOf(stream.combine(reduce, type, to, sources, elements)), "");
    return download<T>(to, elements);
  }
};

std::vector<float> randomValues(int64_t count, uint64_t seed) {
  std::vector<float> values(count);
  normalRange(seed, 0, 0, count, 1, values.data());
  return values;
}

// Sizes and places that allow 16 bytes at once, and others.
constexpr int64_t kSizes[] = {1, 8, 250, 4096, 10'001};

TEST_F(Combine, sumsAddInTheOrderOfTheSources) {
  for (const int64_t elements : kSizes)
    for (const int64_t count : {1, 2, 3, 8, 37})
      for (const int64_t shift : {0, 1}) {
        std::vector<std::vector<float>> values;
        for (int64_t i = 0; i < count; ++i)
          values.push_back(randomValues(elements, i));
        std::vector<float> expected = values[0];
        for (int64_t i = 1; i < count; ++i)
          for (int64_t j = 0; j < elements; ++j)
            expected[j] += values[i][j];
        ASSERT_EQ(combined(MGC_SUM, MGC_F32, values, shift), expected) << elements << " of " << count;
      }
}

// 1 + 2^-9 + 2^-9: rounded after each step, nothing would be added.
TEST_F(Combine, bf16IsRoundedOnce) {
  const std::vector<std::vector<uint16_t>> values = {std::vector<uint16_t>(100, bf16Of(1)),
                                                     std::vector<uint16_t>(100, bf16Of(1.0f / 256)),
                                                     std::vector<uint16_t>(100, bf16Of(1.0f / 256))};
  EXPECT_EQ(combined(MGC_SUM, MGC_BF16, values), std::vector<uint16_t>(100, bf16Of(1 + 2.0f / 256)));
  EXPECT_EQ(bf16Of(1 + 1.0f / 256), bf16Of(1)) << "else the test says nothing";
}

TEST_F(Combine, sumsOfBf16) {
  for (const int64_t elements : kSizes)
    for (const int64_t shift : {0, 1}) {
      std::vector<std::vector<uint16_t>> values(5);
      std::vector<float> sum(elements);
      for (int i = 0; i < 5; ++i)
        for (const float value : randomValues(elements, i))
          values[i].push_back(bf16Of(value));
      std::vector<uint16_t> expected;
      for (int64_t j = 0; j < elements; ++j) {
        float total = floatOf(values[0][j]);
        for (int i = 1; i < 5; ++i)
          total += floatOf(values[i][j]);
        expected.push_back(bf16Of(total));
      }
      ASSERT_EQ(combined(MGC_SUM, MGC_BF16, values, shift), expected) << elements;
    }
}

TEST_F(Combine, maxima) {
  for (const int64_t elements : kSizes) {
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 4; ++i)
      values.push_back(randomValues(elements, i));
    std::vector<float> expected = values[0];
    std::vector<std::vector<int32_t>> integers;
    for (const auto &source : values) {
      for (int64_t j = 0; j < elements; ++j)
        expected[j] = std::max(expected[j], source[j]);
      integers.emplace_back();
      for (const float value : source)
        integers.back().push_back(int32_t(value * 1e9f / 8));
    }
    ASSERT_EQ(combined(MGC_MAX, MGC_F32, values), expected);
    std::vector<int32_t> expectedIntegers;
    for (const float value : expected)
      expectedIntegers.push_back(int32_t(value * 1e9f / 8));
    ASSERT_EQ(combined(MGC_MAX, MGC_I32, integers), expectedIntegers);
  }
}

TEST_F(Combine, integersWrapAndAreExact) {
  const std::vector<std::vector<int32_t>> values = {{2'000'000'000, 5}, {2'000'000'000, -7}};
  EXPECT_EQ(combined(MGC_SUM, MGC_I32, values), (std::vector<int32_t>{-294'967'296, -2}));
}

TEST_F(Combine, asManySourcesAsThereMayBe) {
  const auto one = uploaded(std::vector<float>(16, 1)), to = uploaded(std::vector<float>(16));
  const std::vector<mgc_address> sources(256, one.address());
  ASSERT_EQ(errorOf(stream.combine(MGC_SUM, MGC_F32, to.address(), sources, 16)), "");
  EXPECT_EQ(download<float>(to.address(), 16), std::vector<float>(16, 256));
  const std::vector<mgc_address> more(257, one.address());
  EXPECT_NE(errorOf(stream.combine(MGC_SUM, MGC_F32, to.address(), more, 16))
                .find("combine of 257 sources; possible are 1 to 256"),
            std::string::npos);
  EXPECT_NE(errorOf(stream.combine(MGC_SUM, MGC_F32, to.address(), {}, 16)).find("combine of 0 sources"),
            std::string::npos);
  EXPECT_EQ(errorOf(stream.combine(MGC_SUM, MGC_F32, to.address(), sources, 0)), "");
}

} // namespace
