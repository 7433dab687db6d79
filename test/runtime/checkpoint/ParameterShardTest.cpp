// Where the elements of parameters lie, worked out by hand.
#include "runtime/checkpoint/ParameterShard.h"
#include "test/runtime/checkpoint/TestPlan.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace mgc;
using plan::Parameter;

namespace {

// "local<-file:count" of each run.
std::string runsOf(const Shard &shard) {
  std::string text;
  forEachRun(shard, [&](int64_t local, int64_t file, int64_t count) {
    text += fmt::format("{}{}<-{}:{}", text.empty() ? "" : " ", local, file, count);
  });
  return text;
}

plan::Mesh meshOf(int64_t tp) { return {{{"tp", tp}}, {{"tp", {"tp"}}}}; }

// k of c_attn [2, 24]: columns 8 to 15 are [g, d] = [2, 4].
Parameter makeKey() {
  return {.fileShape = {2, 24},
          .grouping = {1, 2},
          .offset = {0, 8},
          .dims = {{"h", 2, 2, {}}, {"g", 2, 2, {"tp"}}, {"d", 4, 4, {}}}};
}

} // namespace

TEST(Shard, byItself) {
  const Shard shard = shardOf(meshOf(1), makeKey(), 0);
  EXPECT_EQ(runsOf(shard), "0<-8:8 8<-32:8");
  EXPECT_EQ(shard.rows, 1);
  EXPECT_EQ(shard.rowElements, 16);
  EXPECT_EQ(shard.span(), 16);
}

TEST(Shard, inAMatrix) {
  Parameter key = makeKey();
  key.rows = {2, 4, 12}; // rows in [h, g, 3, d]
  const Shard whole = shardOf(meshOf(1), key, 0), half = shardOf(meshOf(2), key, 1);
  EXPECT_EQ(runsOf(whole), "0<-8:4 12<-12:4 24<-32:4 36<-36:4");
  EXPECT_EQ(whole.rows, 4);
  EXPECT_EQ(whole.rowElements, 4);
  EXPECT_EQ(whole.span(), 40);
  EXPECT_EQ(runsOf(half), "0<-12:4 12<-36:4");
  EXPECT_EQ(beginOf(key, {0, 0, 100}), 104);
}

// A row of the matrix may be one of the first dimension's, or the only one.
TEST(Shard, inLongerRows) {
  Parameter key = makeKey();
  key.rows = {1, 0, 20};
  EXPECT_EQ(runsOf(shardOf(meshOf(1), key, 0)), "0<-8:8 20<-32:8");
  EXPECT_EQ(runsOf(shardOf(meshOf(2), key, 1)), "0<-12:4 20<-36:4");
  key.rows = {0, 16, 32};
  EXPECT_EQ(runsOf(shardOf(meshOf(1), key, 0)), "0<-8:8 8<-32:8");
  EXPECT_EQ(shardOf(meshOf(1), key, 0).span(), 16);
}

// 5 of 6 rows of [6, 3] are in the file: the second half has 2 of its 3.
TEST(Shard, padding) {
  Parameter table{
      .fileShape = {5, 3}, .grouping = {1, 1}, .offset = {0, 0}, .dims = {{"v", 6, 5, {"tp"}}, {"h", 3, 3, {}}}};
  EXPECT_EQ(runsOf(shardOf(meshOf(2), table, 1)), "0<-9:6");
  table.rows = {1, 2, 7};
  EXPECT_EQ(runsOf(shardOf(meshOf(2), table, 1)), "0<-9:3 7<-12:3");
  EXPECT_EQ(shardOf(meshOf(2), table, 1).span(), 17);
}

// k of query_key_value [2 * 6, 3], where each of 2 groups has 2 rows of q, k and v.
TEST(Shard, ofGroups) {
  const Parameter key{.fileShape = {2, 6, 3},
                      .tensorShape = {12, 3},
                      .grouping = {1, 1, 1},
                      .offset = {0, 2, 0},
                      .dims = {{"g", 2, 2, {"tp"}}, {"d", 2, 2, {}}, {"h", 3, 3, {}}}};
  EXPECT_EQ(runsOf(shardOf(meshOf(1), key, 0)), "0<-6:6 6<-24:6");
  EXPECT_EQ(runsOf(shardOf(meshOf(2), key, 1)), "0<-24:6");
}

TEST(Shard, partsHaveTheWholeOnce) {
  Parameter key = makeKey();
  for (const Parameter::Rows &rows : {Parameter::Rows{}, {2, 4, 12}})
    for (int64_t elements : {1, 8, 100}) {
      key.rows = rows;
      const Shard whole = shardOf(meshOf(1), key, 0);
      std::string runs;
      for (const Shard &part : partsOf(whole, elements))
        runs += (runs.empty() ? "" : " ") + runsOf(part);
      EXPECT_EQ(runs, runsOf(whole)) << elements;
      EXPECT_EQ(partsOf(whole, elements).size(), elements < 16 ? 2u : 1u);
    }
  Parameter scalar;
  EXPECT_EQ(partsOf(shardOf(meshOf(1), scalar, 0), 1).size(), 1u);
}

// Counters have loads, but are in no file; biases that load moves have both.
TEST(FileTensors, ofLoads) {
  plan::Plan plan = test::makePlan({});
  const auto namesOf = [](const std::vector<FileTensor> &tensors) {
    std::vector<std::string> names;
    for (const FileTensor &tensor : tensors)
      names.push_back(tensor.name);
    return names;
  };
  const std::vector<std::string> all = namesOf(fileTensors(plan)), norms = {"h.0.ln.weight", "h.1.ln.weight"};
  EXPECT_TRUE(tensorsWithLoad(plan).empty());
  plan::Bucket &bucket = plan.stages[0].buckets[1];
  bucket.meanLoad = 2;
  EXPECT_EQ(namesOf(fileTensors(plan)), all);
  EXPECT_EQ(namesOf(tensorsWithLoad(plan)), norms);
  bucket.use = plan::BucketUse::frozen; // a bias that load does not move
  EXPECT_TRUE(tensorsWithLoad(plan).empty());
  EXPECT_EQ(namesOf(fileTensors(plan)), all);
  bucket.use = plan::BucketUse::loadCounter;
  std::vector<std::string> others = all;
  std::erase_if(others, [&](const std::string &name) { return std::ranges::count(norms, name) > 0; });
  EXPECT_EQ(namesOf(fileTensors(plan)), others);
  EXPECT_EQ(namesOf(tensorsWithLoad(plan)), norms);
}
