// Weights of another model are told by their config.json; what a continuation may change is not held against them.
#include "model/file/SameModel.h"

#include "test/frontend/Configs.h"
#include "test/runtime/TempDir.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

// The differences said of weights with this config.json, for a plan of the tiny model of the family.
std::string said(const json &edit, const std::string &family = "llama") {
  const json plan = tinyDecoder(family);
  std::string all;
  for (const std::string &line : differencesBetween(model(with(plan, edit)), model(plan)))
    all += line + "\n";
  return all;
}

} // namespace

TEST(SameModel, namesBothValues) {
  EXPECT_EQ(said(json::object()), "");
  EXPECT_EQ(said({{"rope_theta", 500000.0}}),
            "layer 0: attention.rope.theta: 500000 in the config.json, 10000 in the plan\n");
  EXPECT_EQ(said({{"hidden_act", "gelu"}}), "layer 0: mlp.activation: gelu in the config.json, silu in the plan\n");
  EXPECT_EQ(said({{"num_hidden_layers", 5}}), "layers: 5 in the config.json, 4 in the plan\n");
  const std::string epsilon = said({{"rms_norm_eps", 1e-3}});
  EXPECT_NE(epsilon.find("final_norm.epsilon: 0.001 in the config.json"), std::string::npos) << epsilon;
}

TEST(SameModel, aTrainingThatGoesOnHasTheSameDropout) {
  const json plan = tinyGpt2();
  const ModelDescription other = model(with(plan, {{"resid_pdrop", 0.25}, {"initializer_range", 0.5}}));
  EXPECT_TRUE(differencesBetween(other, model(plan)).empty());
  const std::vector<std::string> lines = differencesBetween(other, model(plan), WeightsUse::continued);
  ASSERT_FALSE(lines.empty());
  for (const std::string &line : lines)
    EXPECT_NE(line.find("dropout: 0.25 in the config.json"), std::string::npos) << line;
}

TEST(SameModel, ofScaledRotaryPositions) {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 4.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  EXPECT_NE(said({{"rope_scaling", scaling}}).find("layer 0: attention.rope.scaling.kind: llama3 "), std::string::npos)
      << said({{"rope_scaling", scaling}});
}

TEST(SameModel, ofLayersTheFirstThatDiffers) {
  const json windowed = {{"use_sliding_window", true}, {"sliding_window", 4}, {"max_window_layers", 1}};
  EXPECT_EQ(said(windowed, "qwen2"), "layer 1: attention.window: 4 in the config.json, 0 in the plan\n");
}

TEST(SameModel, ofRouters) {
  EXPECT_EQ(said(json::object(), "qwen3_moe"), "");
  EXPECT_EQ(said({{"num_experts_per_tok", 5}}, "qwen3_moe"),
            "layer 0: experts.chosen: 5 in the config.json, 2 in the plan\n");
  EXPECT_EQ(said({{"norm_topk_prob", true}}, "qwen3_moe"),
            "layer 0: experts.normalised: 0 in the config.json, none in the plan\n");
  EXPECT_EQ(said({{"num_experts", 4}}, "qwen3_moe"), "layer 0: experts.count: 4 in the config.json, 8 in the plan\n");
  EXPECT_EQ(said({{"n_group", 2}}, "glm4_moe"), "layer 1: experts.groups: 1 in the config.json, 4 in the plan\n"
                                                "layer 1: experts.kept_groups: 1 in the config.json, 2 in the plan\n"
                                                "layer 1: experts.group_top: 1 in the config.json, 2 in the plan\n");
  EXPECT_EQ(said({{"shared_expert_intermediate_size", 24}}, "qwen2_moe"),
            "layer 0: experts.shared.ffn: 24 in the config.json, 20 in the plan\n");
  EXPECT_EQ(said({{"decoder_sparse_step", 2}}, "qwen3_moe"),
            "layer 0: mlp.ffn: 80 in the config.json, 12 in the plan\n"
            "layer 0: experts: none in the config.json, given in the plan\n");
}

TEST(SameModel, aContinuationMayChangeTheRest) {
  EXPECT_EQ(said({{"attention_dropout", 0.1}}), "");
  EXPECT_EQ(said({{"initializer_range", 0.5}}), "");
  EXPECT_EQ(said({{"pad_token_id", 3}}), "");
  EXPECT_EQ(said({{"max_position_embeddings", 4096}}), ""); // rotary positions have no table
  EXPECT_EQ(said({{"torch_dtype", "bfloat16"}}), "");
}

TEST(SameModel, filesThatSayNothingOrTooMuch) {
  const test::TempDir dir;
  const std::string plan = tinyDecoder("llama").dump();
  const auto verify = [&] { return verifySameModel(plan, dir.path(), false); };
  EXPECT_TRUE(test::isOk(verify())) << "no config.json";
  const std::string weights = dir.write("model.safetensors", "");
  EXPECT_TRUE(test::isOk(verifySameModel(plan, weights, false))) << "no config.json";
  dir.write("config.json", with(tinyDecoder("llama"), {{"rope_theta", 5.0}}).dump());
  EXPECT_TRUE(test::isOk(verifySameModel("", dir.path(), false))) << "the plan claims none";
  EXPECT_TRUE(test::fails(verify(), {dir.path("config.json"), "another model",
                                     "attention.rope.theta: 5 in the config.json, 10000 in the plan"}));
  for (const std::string &file : {weights, dir.path("model.safetensors.index.json")})
    EXPECT_TRUE(test::fails(verifySameModel(plan, file, false), {dir.path("config.json"), "another model"}));
  EXPECT_TRUE(test::isOk(verifySameModel(plan, dir.write("tensors.safetensors", ""), false))) << "a file of any name";
  dir.write("config.json", with(tinyDecoder("llama"), {{"model_type", "mamba"}}).dump());
  EXPECT_TRUE(test::fails(verify(), {"mamba"}));
  dir.write("config.json", "{");
  EXPECT_TRUE(test::fails(verify(), {"is not JSON"}));
}
