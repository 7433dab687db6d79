// Samples and blends of indexed files: those of Megatron-LM's builder.
#include "runtime/data/indexed/GptSamples.h"

#include "test/runtime/data/indexed/GoldenFiles.h"

using namespace mgc;
using namespace mgc::test;

namespace {

CorpusFiles filesOf(const nlohmann::json &row) {
  CorpusFiles files;
  if (!row["data"].is_null()) {
    files.blend = parseBlend("--data-path", inGolden(row["data"])).take();
    files.split = parseSplit(row["split"]).take();
  } else {
    for (size_t i = 0; i < 3; ++i)
      files.perSplit[i] = parseBlend("--train-data-path", inGolden(row["data_per_split"][i])).take();
  }
  return files;
}

struct GoldenCase {
  std::string name;
  const nlohmann::json &row;
  Safetensors arrays;
  bool option(const char *name, bool otherwise) const { return row["options"].value(name, otherwise); }
};

void expectIndex(const GoldenCase &c, const std::string &at, const GptSamples &samples, const nlohmann::json &facts) {
  const GptIndex &index = samples.index();
  EXPECT_EQ(index.counts.tokens, facts["tokens_per_epoch"]);
  EXPECT_EQ(index.counts.epochs, facts["epochs"]);
  EXPECT_EQ(index.counts.beforeLast.has_value(), facts["separate_final_epoch"]);
  EXPECT_EQ(samples.samples(), facts["length"]);
  EXPECT_EQ(asIntegers(index.documents), integersOf(c.arrays, at + ".document_index"));
  EXPECT_EQ(asIntegers(index.order), integersOf(c.arrays, at + ".shuffle_index"));
  std::vector<int64_t> boundaries;
  for (int64_t i = 0; i < index.boundaries.size(); ++i)
    boundaries.insert(boundaries.end(), {index.boundaries[i].document, index.boundaries[i].offset});
  EXPECT_EQ(boundaries, integersOf(c.arrays, at + ".sample_index"));
}

// Tokens, and the labels that follow them, where neither is the pad token.
void expectSamples(const GoldenCase &c, const std::string &at, const SampleSource &source) {
  if (!c.arrays.find(at + ".sample_ids") || c.row["tokenizer"]["pad"] != -1)
    return;
  const auto ids = integersOf(c.arrays, at + ".sample_ids"), tokens = integersOf(c.arrays, at + ".tokens");
  const auto labels = integersOf(c.arrays, at + ".labels");
  const int64_t length = c.row["sequence_length"];
  SampleTokens sample;
  for (size_t row = 0; row < ids.size(); ++row) {
    ASSERT_TRUE(isOk(source.read(ids[row], sample)));
    for (int64_t i = 0; i < length; ++i) {
      EXPECT_EQ(sample.tokens[i], tokens[row * length + i]) << at << " " << ids[row] << " " << i;
      if (i + 1 < std::ssize(sample.tokens))
        EXPECT_EQ(sample.tokens[i + 1], labels[row * length + i]) << at << " " << ids[row] << " " << i;
    }
  }
}

void expectSplit(const GoldenCase &c, Split split, const nlohmann::json &facts) {
  const std::string at(toString(split));
  SCOPED_TRACE(at);
  SampleOptions options{
      {.length = c.row["sequence_length"],
       .readsNext = c.option("add_extra_token_to_sequence", true),
       .keepsPartial = split == Split::valid && !c.option("drop_last_partial_validation_sequence", true),
       .seed = c.row["random_seed"]}};
  if (const nlohmann::json &size = c.row["sizes"][static_cast<size_t>(split)]; !size.is_null())
    options.cut.samples = size.get<int64_t>();
  const auto source = openSplit(filesOf(c.row), split, options);
  ASSERT_TRUE(isOk(source));
  ASSERT_TRUE(*source);
  EXPECT_EQ((*source)->samples(), facts["length"]);
  if (const auto *blend = dynamic_cast<const BlendedSamples *>(source->get())) {
    ASSERT_TRUE(facts.contains("datasets"));
    EXPECT_EQ(asIntegers(blend->order().datasets), integersOf(c.arrays, at + ".dataset_index"));
    EXPECT_EQ(asIntegers(blend->order().samples), integersOf(c.arrays, at + ".dataset_sample_index"));
    for (size_t i = 0; i < facts["datasets"].size(); ++i)
      expectIndex(c, fmt::format("{}.{}", at, i), blend->part(i), facts["datasets"][i]);
  } else {
    ASSERT_FALSE(facts.contains("datasets"));
    expectIndex(c, at, dynamic_cast<const GptSamples &>(**source), facts);
  }
  expectSamples(c, at, **source);
}

} // namespace

TEST(GptSamples, areThoseOfMegatron) {
  const nlohmann::json file = goldenJson("gpt/cases.json");
  ASSERT_EQ(file["cases"].size(), 31u);
  for (const auto &[name, row] : file["cases"].items()) {
    SCOPED_TRACE(name);
    const GoldenCase c{name, row, goldenTensors("gpt/" + name + ".safetensors")};
    for (const Split split : kSplits)
      if (const auto facts = row["splits"].find(toString(split)); facts != row["splits"].end())
        expectSplit(c, split, *facts);
  }
}

TEST(GptSamples, blendsAsMegatron) {
  const nlohmann::json file = goldenJson("gpt/blending.json");
  const Safetensors arrays = goldenTensors("gpt/blending.safetensors");
  for (size_t i = 0; i < file["rows"].size(); ++i) {
    const nlohmann::json &row = file["rows"][i];
    BlendOrder order;
    if (row["kind"] == "weights") {
      const auto given = row["given"].get<std::vector<double>>();
      EXPECT_EQ(normalized(given), row["normalized"].get<std::vector<double>>());
      order = orderByWeights(row["normalized"].get<std::vector<double>>(), row["size"]);
    } else {
      order = orderOfAll(row["sizes"].get<std::vector<int64_t>>());
    }
    EXPECT_EQ(asIntegers(order.datasets), integersOf(arrays, fmt::format("{}.dataset_index", i))) << i;
    EXPECT_EQ(asIntegers(order.samples), integersOf(arrays, fmt::format("{}.dataset_sample_index", i))) << i;
  }
}

TEST(GptSamples, refusesWhatCannotBeRead) {
  const auto open = [](const std::vector<std::string> &words, const char *split, Split of, SampleOptions options) {
    CorpusFiles files;
    files.blend = parseBlend("--data-path", inGolden(words)).take();
    files.split = parseSplit(split).take();
    return openSplit(files, of, options);
  };
  const SampleOptions options{{.length = 16, .samples = 10}};
  EXPECT_FALSE(*open({"indexed/docs_u16"}, "1", Split::test, options));           // no such split
  EXPECT_FALSE(*open({"indexed/dtype_int16"}, "969,30,1", Split::test, options)); // none of its 12 sequences
  EXPECT_TRUE(fails(open({"1", "indexed/docs_u16", "1", "indexed/dtype_int16"}, "969,30,1", Split::test, options),
                    {"dtype_int16: has no sequences in the split test", "--split"}));
  EXPECT_TRUE(fails(open({"indexed/dtype_float32"}, "1", Split::train, options), {"F32, expected integers"}));
  EXPECT_TRUE(fails(open({"indexed/none"}, "1", Split::train, options), {"none.idx"}));
  SampleOptions small = options;
  small.vocabulary = 10;
  const auto source = open({"indexed/docs_u16"}, "1", Split::train, small);
  ASSERT_TRUE(isOk(source));
  SampleTokens sample;
  EXPECT_TRUE(fails((*source)->read(0, sample), {"docs_u16.bin: sequence", "expected 0 to 9"}));
}
