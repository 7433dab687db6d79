// Fields that transformers' classes read: the table names all that families ask for, its defaults hold for missing
// fields, and fields that no class reads are ignored with a note.
#include "model/families/Family.h"
#include "test/Places.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

#include <filesystem>
#include <fstream>

using namespace mgc;
using namespace mgc::frontend;

namespace {

// The config.json of each tiny model of test/frontend/zoo that mgc reads.
std::vector<json> tinyConfigs() {
  std::vector<json> configs;
  for (const auto &entry : std::filesystem::directory_iterator(testFile("frontend/zoo")))
    if (json config = json::parse(std::ifstream(entry.path()))["config"]; errorOf(config).empty())
      configs.push_back(config);
  return configs;
}

const Family &familyOf(const json &config) {
  return **std::ranges::find(families(), config["model_type"].get<std::string>(), &Family::modelType);
}

// Fields that a configuration class stores, that no model reads, and whose contradiction of others is refused.
constexpr std::pair<std::string_view, std::string_view> kStored[] = {
    {"deepseek_v2", "qk_head_dim"}, {"gpt_bigcode", "num_key_value_heads"}, {"gpt_oss", "hidden_act"}};

bool isKnown(const Family &family, std::string_view field) {
  const auto isRead = [&](std::string_view row) { return classFieldsOf(row)->reads(field); };
  return isRead(family.modelType) || isRead(kFieldsOfAny) || isRead(kGenerationFields) ||
         std::ranges::find(kStored, std::pair(family.modelType, field)) != std::end(kStored) ||
         std::ranges::find(family.neutralFields, field, &NeutralField::key) != family.neutralFields.end();
}

TEST(ClassFields, NameAllThatFamiliesAskFor) {
  for (const json &config : tinyConfigs()) {
    Problems problems;
    Config read(config, "", problems);
    ModelDescription model;
    readModel(read, nullptr, model);
    for (const std::string &field : read.asked())
      EXPECT_TRUE(isKnown(familyOf(config), field)) << config["model_type"] << ": " << field;
  }
}

TEST(ClassFields, DefaultsHoldForMissingFields) {
  int64_t compared = 0;
  for (const json &config : tinyConfigs()) {
    const ClassFields &fields = *classFieldsOf(familyOf(config).modelType);
    const json defaults = fields.defaultValues();
    for (const auto &[field, value] : defaults.items()) {
      if (config["model_type"] == "mistral3" && field == "tie_word_embeddings")
        continue; // the value of text_config, as in transformers 4 and in published checkpoints
      json absent = without(config, field);
      for (const auto &[one, other] : fields.otherSpellings())
        absent.erase(std::string(one == field ? other : other == field ? one : field));
      const json given = with(absent, {{field, value}});
      ASSERT_EQ(errorOf(absent).empty(), errorOf(given).empty())
          << config["model_type"] << ": " << field << errorOf(absent) << errorOf(given);
      if (!errorOf(given).empty())
        continue;
      EXPECT_EQ(describe(model(absent)), describe(model(given))) << config["model_type"] << ": " << field;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

using Notes = std::vector<std::string>;

TEST(ClassFields, FieldsThatNoClassReadsAreNamed) {
  const std::string ignored = "config.json: ignored, as LlamaForCausalLM of transformers ignores them: ";
  const json llama = tinyDecoder("llama");
  EXPECT_EQ(model(llama).notes, Notes());
  EXPECT_EQ(model(with(llama, {{"auto_map", {{"AutoModel", "a.B"}}}, {"is_llama_config", true}})).notes,
            Notes({ignored + "auto_map, is_llama_config"}));
  EXPECT_EQ(model(with(llama, {{"num_beams", 4}, {"early_stopping", true}, {"typical_p", 0.5}})).notes, Notes())
      << "settings of generation";
  EXPECT_EQ(model(with(without(llama, "rms_norm_eps"), {{"rms_norm_epps", 1e-3}})).notes,
            Notes({ignored + "rms_norm_epps (did you mean rms_norm_eps?)"}));
  EXPECT_EQ(model(with(llama, {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"mode", "x"}}}})).notes,
            Notes({"config.json: ignored, as modeling_rope_utils of transformers ignores them: rope_scaling.mode"}));
}

TEST(ClassFields, ManyFieldsAndStrangeOnesAreNamedInOneLine) {
  json many = tinyDecoder("llama");
  for (int i = 0; i < 200000; ++i)
    many[fmt::format("unread{:06}", i)] = i;
  const std::string note = model(many).notes.at(0);
  EXPECT_TRUE(note.ends_with("unread000099, and 199900 more")) << note;
  EXPECT_TRUE(model(with(tinyDecoder("llama"), {{"\x1b[2J\n", 1}})).notes.at(0).ends_with(R"(: \x1b[2J\x0a)"));
}

TEST(ClassFields, DefaultsOfSizesAreNamed) {
  EXPECT_EQ(model(without(tinyDecoder("llama"), "max_position_embeddings")).notes,
            Notes({"config.json: missing, so the defaults of LlamaForCausalLM hold: max_position_embeddings = 2048"}));
  json misspelt = without(tinyDecoder("llama"), "num_attention_heads");
  misspelt.update({{"num_atention_heads", 4}, {"hidden_size", 80}});
  EXPECT_EQ(errorOf(misspelt),
            "config.json: hidden_size = 80 does not divide over num_attention_heads = 32\n"
            "  possible num_attention_heads: 1, 2, 4, 5, 8, 10, 16, 20, 40, 80\n"
            "config.json: ignored, as LlamaForCausalLM of transformers ignores them: num_atention_heads (did you mean "
            "num_attention_heads?)");
}

TEST(ClassFields, PartsHaveTheDefaultsOfTheirClasses) {
  const json whole = tinyLlava();
  for (const char *part : {"text_config", "vision_config"}) {
    json untyped = whole;
    untyped[part].erase("model_type");
    EXPECT_EQ(describe(model(untyped)), describe(model(whole))) << part;
  }
  const ModelDescription decoder = model(without(whole, "text_config")), tower = model(without(whole, "vision_config"));
  EXPECT_EQ(decoder.hidden, 4096);
  EXPECT_EQ(decoder.notes.back(), "config.json: missing, so the defaults of LlavaForConditionalGeneration hold: "
                                  "text_config = {\"model_type\":\"llama\"}");
  EXPECT_EQ(tower.encoder->layerCount, 23) << "of 24 layers, as vision_feature_layer is -2";
  EXPECT_EQ(tower.encoder->hidden, 1024);
}

TEST(ClassFields, SpellingsOfOneField) {
  json other = without(tinyGpt2(), "n_embd");
  other["hidden_size"] = 32;
  EXPECT_EQ(describe(model(other)), describe(model(tinyGpt2())));
  EXPECT_EQ(errorOf(with(tinyGpt2(), {{"hidden_size", 32}})), "");
  EXPECT_EQ(errorOf(with(tinyGpt2(), {{"hidden_size", 64}})),
            "config.json: hidden_size = 64 and n_embd = 32 differ\n"
            "  one is another name of the other; expected the same in both");
  other["hidden_size"] = 33;
  EXPECT_TRUE(errorOf(other).starts_with("config.json: hidden_size = 33 does not divide")) << errorOf(other);
}

TEST(ClassFields, NamesOfClasses) {
  const auto error = [](const json &config, const char *name) {
    return errorOf(with(config, {{"architectures", {name}}}));
  };
  const json llama = tinyDecoder("llama"), tied = with(llama, {{"tie_word_embeddings", true}});
  EXPECT_EQ(error(llama, "LLaMAForCausalLM"), "");
  EXPECT_EQ(error(tinyGpt2(), "GPT2Model"), "");
  EXPECT_EQ(error(tinyBart(), "BartModel"), "");
  EXPECT_EQ(error(tied, "LlamaModel"), "");
  EXPECT_EQ(error(llama, "LlamaModel"), "config.json: architectures = [\"LlamaModel\"] is not supported\n"
                                        "  supported: [\"LlamaForCausalLM\"]")
      << "its files have no head";
  EXPECT_NE(error(tied, "MistralModel"), "");
  EXPECT_EQ(describe(model(with(tinyDecoder("deepseek_v3"), {{"model_type", "kimi_k2"}}))),
            describe(model(tinyDecoder("deepseek_v3"))));
}

TEST(ClassFields, NumbersOfPythonThatJsonLacks) {
  const auto read = [](const std::string &field) {
    std::string text = with(tinyDecoder("llama"), {{"text", "NaN, \\\" -Infinity"}}).dump();
    return parseModel(text.insert(1, field + ","), "config.json");
  };
  const Result<ModelFile> unread = read(R"("time_step_limit": [0.0, Infinity, -Infinity, NaN])");
  ASSERT_TRUE(unread.isOk()) << unread.status().message();
  EXPECT_EQ(unread->model.notes,
            Notes({"config.json: ignored, as LlamaForCausalLM of transformers ignores them: text, time_step_limit"}));
  EXPECT_TRUE(read(R"("initializer_range": NaN)")
                  .status()
                  .message()
                  .starts_with("config.json: initializer_range = \"NaN\" is not a number from 0 to 1000"));
  EXPECT_FALSE(read(R"("a": Infinity1)").isOk());
  EXPECT_FALSE(read(R"("a": nan)").isOk());
}

} // namespace
