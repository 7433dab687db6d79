// --split and --data-path: Megatron-LM's bounds and weights.
#include "runtime/data/indexed/SplitBounds.h"

#include "test/runtime/data/indexed/GoldenFiles.h"

using namespace mgc;
using namespace mgc::test;

TEST(SplitBounds, areThoseOfMegatron) {
  const nlohmann::json file = goldenJson("gpt/splits.json");
  ASSERT_GT(file["rows"].size(), 400u);
  for (const nlohmann::json &row : file["rows"]) {
    const Result<SplitFractions> split = parseSplit(row[0]);
    ASSERT_TRUE(isOk(split));
    for (const Split part : kSplits) {
      const nlohmann::json &expected = row[2][static_cast<size_t>(part)];
      const std::optional<SequenceRange> range = split->of(part, row[1]);
      ASSERT_EQ(expected.is_null(), !range) << row.dump();
      if (expected.size() == 2)
        EXPECT_EQ(*range, (SequenceRange{expected[0], expected[1]})) << row.dump();
      else if (range)
        EXPECT_EQ(range->size(), 0) << row.dump();
    }
  }
}

TEST(SplitBounds, refusesWhatIsNone) {
  for (const char *text : {"", "a", "0,0,0", "1,2,3,4", "1.2.3", "-1,2", "nan,1,0", "1,nan,0", "1e3,1,1"})
    EXPECT_TRUE(fails(parseSplit(text), {"--split", "969,30,1"})) << text;
}

TEST(SplitBounds, readsPrefixesAndWeights) {
  const auto parse = [](const std::vector<std::string> &words) { return parseBlend("--data-path", words); };
  const BlendWords weighted = parse({"30", "a", "0.7", "b"}).take();
  EXPECT_EQ(weighted.prefixes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weighted.weights, (std::vector<double>{30, 0.7}));
  EXPECT_EQ(parse({"a", "b"})->prefixes.size(), 2u);
  EXPECT_TRUE(parse({"a", "b"})->weights.empty());
  EXPECT_EQ(parse({"1", "2", "3"})->prefixes.size(), 3u);
  EXPECT_TRUE(fails(parse({"-1", "a"}), {"--data-path", "a is -1", "more than 0"}));
  EXPECT_TRUE(fails(parse({"1", "a", "0", "b"}), {"b is 0", "more than 0"}));
  EXPECT_TRUE(fails(parse({"1e308", "a", "1e308", "b"}), {"sum of the weights is not finite"}));
}
