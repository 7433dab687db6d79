// Orders of NumPy and PyTorch, and what Megatron-LM's samplers make of them.
#include "runtime/data/indexed/RandomOrder.h"

#include "runtime/data/indexed/SampleSchedule.h"
#include "test/runtime/data/indexed/GoldenFiles.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

template <typename T> void expectOrder(const nlohmann::json &expected, const std::vector<T> &values) {
  ASSERT_EQ(expected["n"], values.size());
  const auto first = expected[expected.contains("values") ? "values" : "first"].template get<std::vector<T>>();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), values.begin()));
  int64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    sum += static_cast<int64_t>(i + 1) * values[i];
  EXPECT_EQ(expected["checksum"], sum);
}

} // namespace

TEST(RandomOrder, shufflesAsNumPy) {
  const nlohmann::json rows = goldenJson("sampler/random.json")["numpy_RandomState"];
  ASSERT_GT(rows.size(), 10u);
  for (const nlohmann::json &row : rows) {
    NumpyRandom random(row["seed"].get<uint32_t>());
    std::vector<int32_t> values(row["shuffle"]["n"].get<size_t>());
    std::iota(values.begin(), values.end(), 0);
    random.shuffle(std::span(values));
    expectOrder(row["shuffle"], values);
    std::iota(values.begin(), values.end(), 0);
    random.shuffle(std::span(values));
    expectOrder(row["second_shuffle"], values);
  }
}

TEST(RandomOrder, permutesAsTorch) {
  const nlohmann::json file = goldenJson("sampler/random.json");
  const nlohmann::json &rows = file["torch_randperm"];
  ASSERT_GT(rows.size(), 5u);
  for (const nlohmann::json &row : rows)
    expectOrder(row["randperm"], torchPermutation(row["randperm"]["n"].get<int64_t>(), row["seed"].get<uint64_t>()));
}

namespace {

// A row of sampler.json: the samples of each rank's microbatches, those that all ranks have, in the order of the schedule.
std::vector<int64_t> scheduleOf(const nlohmann::json &row) {
  size_t common = SIZE_MAX;
  for (const nlohmann::json &rank : row["ranks"])
    common = std::min(common, rank.size());
  std::vector<int64_t> all;
  for (size_t batch = 0; batch < common; ++batch)
    for (const nlohmann::json &rank : row["ranks"])
      for (const nlohmann::json &sample : rank[batch])
        all.push_back(sample.get<int64_t>());
  return all;
}

} // namespace

TEST(SampleSchedule, isThatOfMegatron) {
  int64_t cyclic = 0, single = 0;
  const nlohmann::json file = goldenJson("sampler/sampler.json");
  for (const nlohmann::json &row : file["rows"]) {
    SCOPED_TRACE(row.dump().substr(0, 200));
    if (row["sampler"] == "MegatronFullValidationSampler")
      continue; // batches of one sample each: whoever validates cuts as single does
    std::vector<int64_t> expected = scheduleOf(row), found(expected.size());
    const auto consumed = row["consumed_samples"].get<int64_t>();
    if (row["sampler"] == "MegatronPretrainingSampler") {
      std::iota(found.begin(), found.end(), consumed);
      ++single;
    } else {
      CyclicOrder order(row["total_samples"].get<int64_t>(),
                        {row["micro_batch_size"].get<int64_t>(), row["data_parallel_size"].get<int64_t>()},
                        row["data_sharding"].get<bool>());
      const int64_t left = order.active() - consumed % order.active(); // Megatron's iterator ends with the epoch
      EXPECT_TRUE(left == std::ssize(expected) || !row["batches_kept"].is_null());
      order.fill(consumed, found);
      ++cyclic;
    }
    EXPECT_EQ(found, expected);
  }
  EXPECT_GT(single, 3);
  EXPECT_GT(cyclic, 15);
}
