// planBuckets over swept problems: every parameter has one place per stage, places lie apart, inside and aligned.
#include "compiler/step/Buckets.h"

#include "dialects/mg/Parameter.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace mgc {
namespace {

BlockParameter parameter(int64_t argument, std::string tensor, int64_t elements, BucketKey key = {}) {
  return {argument, std::move(tensor), "", elements, std::move(key)};
}

BucketKey key(plan::Axes split, plan::Axes reduce, plan::Axes data, bool decay) {
  return {std::move(split), std::move(reduce), std::move(data), {}, decay};
}

// An embedding, `layers` layers and a head over `stages` stages, layer l on stage l * stages / layers.
BucketProblem problem(int64_t layers, int64_t stages, bool tied, bool sharded) {
  BucketProblem result;
  result.sharding.mesh.axes = {{"pp", stages, plan::AxisRole::stage}, {"dp", 3, plan::AxisRole::data}, {"tp", 2}};
  result.sharding.level = sharded ? 1 : 0;
  BucketKey matrix = key({"tp"}, {}, {"dp"}, true), norm = key({}, {"tp"}, {"dp"}, false);
  result.blocks = {{parameter(1, "wte", 100, matrix), parameter(2, "wpe", 33, key({}, {"tp"}, {"dp"}, true))},
                   {parameter(3, "h.{}.norm", 7, norm), parameter(4, "h.{}.w", 50, matrix),
                    parameter(5, "h.{}.v", 16, matrix), parameter(6, "h.{}.bias", 1, norm)},
                   {parameter(1, "norm", 7, norm), parameter(2, tied ? "wte" : "lm_head", 100, matrix)}};
  result.stages.resize(stages);
  result.stages.front().push_back({0, 0, 1});
  for (int64_t l = 0; l < layers; ++l) {
    auto &ranges = result.stages[l * stages / layers];
    if (ranges.empty() || ranges.back().block != 1)
      ranges.push_back({1, l, 1});
    else
      ++ranges.back().count;
  }
  result.stages.back().push_back({2, 0, 1});
  return result;
}

// Elements of each parameter of a stage, from the places: tensor -> (bucket, offset).
std::map<std::string, std::pair<int64_t, int64_t>> placesOf(const BucketProblem &problem, const StageBuckets &stage) {
  std::map<std::string, std::pair<int64_t, int64_t>> places;
  for (const PlannedPlace &place : stage.places)
    for (int64_t i = 0; i < place.count; ++i) {
      std::string name = nameForInstance(problem.blocks[place.block][place.parameter].tensor, place.first + i);
      std::pair where{place.bucket, place.offset + i * place.stride};
      auto [it, isNew] = places.try_emplace(name, where);
      EXPECT_EQ(it->second, where) << name << " has two places";
    }
  return places;
}

void checkStage(const BucketProblem &problem, int64_t index, const StageBuckets &stage) {
  auto places = placesOf(problem, stage);
  std::set<std::string> expected;
  std::map<std::string, int64_t> sizes;
  for (const InstanceRange &range : problem.stages[index])
    for (const BlockParameter &p : problem.blocks[range.block])
      for (int64_t i = range.first; i < range.first + range.count; ++i)
        sizes[*expected.insert(nameForInstance(p.tensor, i)).first] = p.elements;
  EXPECT_EQ(places.size(), expected.size());
  std::map<std::pair<int64_t, int64_t>, int64_t> ends; // by bucket and offset
  for (const auto &[name, where] : places) {
    EXPECT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(where.second % 16, 0) << name;
    EXPECT_LE(where.second + sizes[name], stage.buckets[where.first].elements) << name;
    EXPECT_TRUE(ends.try_emplace(where, where.second + sizes[name]).second) << name << " shares its place";
  }
  std::pair<int64_t, int64_t> last{-1, 0}; // bucket, end
  for (const auto &[where, end] : ends) {
    EXPECT_TRUE(where.first != last.first || where.second >= last.second);
    last = {where.first, end};
  }
  for (const PlannedBucket &bucket : stage.buckets)
    EXPECT_EQ(bucket.elements % (!bucket.shard.empty() ? 3 * 16 : 16), 0);
}

TEST(Buckets, PlacesAreSoundForAllSizes) {
  for (int64_t layers : {1, 2, 5, 12})
    for (int64_t stages = 1; stages <= std::min<int64_t>(layers, 4); ++stages)
      for (bool tied : {false, true})
        for (bool sharded : {false, true}) {
          BucketProblem p = problem(layers, stages, tied, sharded);
          auto planned = planBuckets(p);
          ASSERT_TRUE(planned.isOk()) << planned.status().message();
          ASSERT_EQ(int64_t(planned->size()), stages);
          for (int64_t s = 0; s < stages; ++s)
            checkStage(p, s, (*planned)[s]);
        }
}

// Equal layers follow each other at one stride: layer i is at base + i * stride.
TEST(Buckets, LayersHaveOneStride) {
  auto planned = planBuckets(problem(12, 1, false, false));
  for (const PlannedPlace &place : (*planned)[0].places)
    if (place.block == 1) {
      EXPECT_EQ(place.count, 12);
      EXPECT_EQ(place.stride, place.parameter == 1 || place.parameter == 2 ? 64 + 16 : 16 + 16);
    }
}

TEST(Buckets, LargeSlicesAreWholeParts) {
  BucketProblem p = problem(1, 1, false, true);
  BlockParameter &table = p.blocks[0][0];
  auto elementsWith = [&](int64_t elements) {
    table.elements = elements;
    auto planned = planBuckets(p);
    return planned.isOk() ? (*planned)[0].buckets[0].elements : -1;
  };
  const int64_t others = elementsWith(16) - 16; // other elements of the bucket, rounded up to 48 for 3 ranks
  const int64_t large = 3 * 64 * kPartElements;
  EXPECT_LT(elementsWith(large - others - 480), large);
  EXPECT_EQ(elementsWith(large + 16), large + 3 * kPartElements);
}

// A bucket of its own, of no part and not divided by ZeRO-1, where others like it are.
TEST(Buckets, FrozenParametersHaveValuesAlone) {
  BucketProblem p = problem(4, 1, false, true);
  p.blocks[1][2].key = key({"tp"}, {}, {}, true);
  p.blocks[1][2].key.use = plan::BucketUse::frozen;
  for (InstanceRange &range : p.stages[0])
    range.part = 0;
  auto planned = planBuckets(p);
  ASSERT_TRUE(planned.isOk()) << planned.status().message();
  checkStage(p, 0, (*planned)[0]);
  int64_t frozen = 0;
  for (const PlannedBucket &bucket : (*planned)[0].buckets) {
    const bool isFrozen = bucket.key.use == plan::BucketUse::frozen;
    EXPECT_EQ(!bucket.shard.empty(), !isFrozen);
    EXPECT_EQ(bucket.key.part, isFrozen ? -1 : 0);
    frozen += isFrozen ? bucket.elements : 0;
  }
  EXPECT_EQ(frozen, 4 * 16); // h.{}.v of 4 layers
}

// ZeRO-2: an instance has its unit of each bucket, and nothing else lies there; a shared parameter is one by itself.
TEST(Buckets, UnitsAreThoseOfInstances) {
  for (const bool tied : {false, true}) {
    BucketProblem p = problem(5, 2, tied, true);
    p.sharding.level = 2;
    p.blocks[1][2].key.use = plan::BucketUse::frozen, p.blocks[1][2].key.data = {};
    auto planned = planBuckets(p);
    ASSERT_TRUE(planned.isOk()) << planned.status().message();
    for (size_t s = 0; s < planned->size(); ++s) {
      const StageBuckets &stage = (*planned)[s];
      checkStage(p, int64_t(s), stage);
      std::map<std::pair<int64_t, int64_t>, std::set<std::pair<int64_t, int64_t>>>
          users; // blocks and instances, by unit
      for (const PlannedPlace &place : stage.places)
        for (int64_t i = 0; i < place.count; ++i) {
          const PlannedBucket &bucket = stage.buckets[place.bucket];
          const int64_t unit = bucket.elements / bucket.units, begin = place.offset + i * place.stride,
                        end = begin + p.blocks[place.block][place.parameter].elements;
          EXPECT_EQ(bucket.key.unit >= 0, bucket.key.use == plan::BucketUse::trained);
          EXPECT_EQ(bucket.elements % bucket.units, 0);
          EXPECT_EQ(unit % (!bucket.shard.empty() ? 48 : 16), 0) << "a slice for each of 3 ranks";
          if (bucket.key.unit < 0)
            continue;
          EXPECT_EQ(begin / unit, (end - 1) / unit);
          users[{place.bucket, begin / unit}].insert({place.block, place.first + i});
        }
      for (const auto &[unit, instances] : users) {
        const bool isTable = !stage.buckets[unit.first].key.tied.empty();
        EXPECT_EQ(instances.size(), 1u) << (isTable ? "the table" : "a unit");
      }
    }
    const auto isTied = [](const PlannedBucket &bucket) { return !bucket.key.tied.empty(); };
    for (const StageBuckets &stage : *planned)
      EXPECT_EQ(std::ranges::count_if(stage.buckets, isTied), tied) << "the tie is a unit";
  }
}

// One tensor is trained by all who use it or by none: the view says it.
TEST(Buckets, TiedUsesAreFrozenTogether) {
  BucketProblem p = problem(2, 2, true, false);
  for (BlockParameter *use : {&p.blocks[0][0], &p.blocks[2][1]}) {
    use->key = key({"tp"}, {}, {}, true);
    use->key.use = plan::BucketUse::frozen;
  }
  auto planned = planBuckets(p);
  ASSERT_TRUE(planned.isOk()) << planned.status().message();
  for (const StageBuckets &stage : *planned) {
    EXPECT_EQ(stage.buckets[0].key.use, plan::BucketUse::frozen);
    EXPECT_EQ(stage.buckets[0].key.tied, (std::vector<int64_t>{0, 1}));
  }
  p.blocks[2][1].key.use = plan::BucketUse::trained;
  p.blocks[2][1].view = "trained";
  EXPECT_NE(planBuckets(p).status().message().find("another trained"), std::string::npos);
}

TEST(Buckets, TiedOverStagesHasABucketOfItsOwn) {
  auto planned = planBuckets(problem(4, 2, true, false));
  ASSERT_TRUE(planned.isOk());
  for (const StageBuckets &stage : *planned) {
    int64_t tied = 0;
    for (const PlannedBucket &bucket : stage.buckets)
      if (!bucket.key.tied.empty()) {
        EXPECT_EQ(bucket.key.tied, (std::vector<int64_t>{0, 1}));
        EXPECT_EQ(bucket.elements, 112); // wte alone
        ++tied;
      }
    EXPECT_EQ(tied, 1);
  }
}

// A table and a head that use two tied matrices in opposite order, with a block between them that has one too.
TEST(Buckets, TiedBucketsAreAlikeOnAllStages) {
  BucketKey matrix = key({"tp"}, {}, {"dp"}, true), whole = key({}, {"tp"}, {"dp"}, true);
  BlockParameter a = parameter(0, "a", 100, matrix), b = parameter(1, "b", 33, matrix),
                 c = parameter(2, "c", 20, whole);
  BucketProblem p;
  p.sharding.mesh.axes = {{"pp", 2, plan::AxisRole::stage}, {"dp", 3, plan::AxisRole::data}, {"tp", 2}};
  p.blocks = {{b, c, a}, {a, b, c}};
  p.stages = {{{0, 0, 1}}, {{1, 0, 1}}};
  auto planned = planBuckets(p);
  ASSERT_TRUE(planned.isOk()) << planned.status().message();
  EXPECT_EQ(placesOf(p, (*planned)[0]), placesOf(p, (*planned)[1]));
  ASSERT_EQ((*planned)[0].buckets.size(), (*planned)[1].buckets.size());
  for (size_t i = 0; i < (*planned)[0].buckets.size(); ++i) {
    EXPECT_EQ((*planned)[0].buckets[i].key, (*planned)[1].buckets[i].key);
    EXPECT_EQ((*planned)[0].buckets[i].elements, (*planned)[1].buckets[i].elements);
  }
  for (int64_t s = 0; s < 2; ++s)
    checkStage(p, s, (*planned)[s]);
}

TEST(Buckets, TiedOnOneStageIsOneParameter) {
  BucketProblem p = problem(4, 1, true, false);
  auto planned = planBuckets(p);
  EXPECT_EQ(placesOf(p, (*planned)[0]).size(), 2u + 4 * 4 + 1); // the head adds its norm only
  for (const PlannedBucket &bucket : (*planned)[0].buckets)
    EXPECT_TRUE(bucket.key.tied.empty());
}

TEST(Buckets, TiedUsesMustAgree) {
  BucketProblem p = problem(2, 1, true, false);
  p.blocks[2][1].key.reduce = {"tp"};
  auto planned = planBuckets(p);
  ASSERT_FALSE(planned.isOk());
  EXPECT_NE(planned.status().message().find(
                "parameter wte: the gradient of one use is pending over [dp], of another over [tp, dp]"),
            std::string::npos)
      << planned.status().message();
  p = problem(2, 2, true, false);
  p.blocks[2][1].elements = 99;
  EXPECT_FALSE(planBuckets(p).isOk());
  p = problem(2, 2, true, false);
  p.blocks[2][1].view = "transposed";
  EXPECT_NE(planBuckets(p).status().message().find("another transposed"), std::string::npos);
}

} // namespace
} // namespace mgc
