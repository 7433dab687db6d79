// Megatron-LM's flags of a model are compared with its config.json.
#include "model/ModelFlags.h"
#include "frontend/Load.h"
#include "test/frontend/Configs.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::frontend;

TEST(ModelFlags, ThoseOfTheModelPass) {
  const ModelDescription llama = model(tinyDecoder("llama"));
  std::vector<GivenModelFlag> all;
  for (const ModelFlag &flag : modelFlags())
    all.push_back({flag.flag, flag.valueOf(llama)});
  EXPECT_TRUE(verifyModelFlags(llama, all).isOk());
  EXPECT_TRUE(verifyModelFlags(llama, {{"--norm-epsilon", "0.000001"}, {"--normalization", "RMSNorm"}}).isOk());
}

TEST(ModelFlags, OthersAreNamedWithBothValues) {
  const ModelDescription gpt2 = model(tinyGpt2());
  EXPECT_EQ(verifyModelFlags(gpt2, {{"--hidden-size", "64"}, {"--swiglu", "true"}, {"--num-layers", "4"}}).message(),
            "config.json: --hidden-size 64: the model has 32 (n_embd)\n"
            "  expected the same; the model comes from this file, so leave --hidden-size out or change the file\n"
            "config.json: --swiglu true: the model has false (activation_function)\n"
            "  expected the same; the model comes from this file, so leave --swiglu out or change the file");
}

TEST(ModelFlags, AFactThatFollowsFromOthersHasNoKey) {
  EXPECT_EQ(verifyModelFlags(model(tinyGpt2()), {{"--kv-channels", "32"}}).message(),
            "config.json: --kv-channels 32: the model has 8\n"
            "  expected the same; the model comes from this file, so leave --kv-channels out");
}

TEST(ModelFlags, DropoutIsOneNumberForBoth) {
  json config = tinyGpt2();
  config["embd_pdrop"] = 0.1;
  EXPECT_EQ(verifyModelFlags(model(config), {{"--hidden-dropout", "0"}}).message(),
            "config.json: --hidden-dropout 0: the model has 0 and 0.1 (resid_pdrop)\n"
            "  expected the same; the model comes from this file, so leave --hidden-dropout out or change the file");
}

TEST(ModelFlags, ExpertsAndLatentAttention) {
  const ModelDescription deepseek = model(tinyDecoder("deepseek_v3"));
  const std::vector<GivenModelFlag> given = {{"--num-experts", "8"},
                                             {"--ffn-hidden-size", "80"},
                                             {"--moe-ffn-hidden-size", "12"},
                                             {"--moe-shared-expert-intermediate-size", "24"},
                                             {"--moe-router-topk", "2"},
                                             {"--moe-router-score-function", "sigmoid"},
                                             {"--moe-router-pre-softmax", "true"},
                                             {"--moe-router-num-groups", "4"},
                                             {"--moe-router-group-topk", "2"},
                                             {"--moe-router-topk-scaling-factor", "2.5"},
                                             {"--moe-router-enable-expert-bias", "true"},
                                             {"--multi-latent-attention", "true"},
                                             {"--q-lora-rank", "24"},
                                             {"--kv-lora-rank", "16"},
                                             {"--qk-head-dim", "12"},
                                             {"--qk-pos-emb-head-dim", "4"},
                                             {"--v-head-dim", "8"}};
  const Status same = verifyModelFlags(deepseek, given);
  EXPECT_TRUE(same.isOk()) << same.message();
  for (GivenModelFlag other : given) {
    other.value = other.value == "true" ? "false" : other.value + "1";
    EXPECT_FALSE(verifyModelFlags(deepseek, {other}).isOk()) << other.flag;
  }
}

// Mixtral has one width, whose flag may be either; all layers of Qwen3-MoE have experts, so its dense width is nobody's.
TEST(ModelFlags, WidthsOfExperts) {
  const ModelDescription mixtral = model(tinyDecoder("mixtral")), qwen = model(tinyDecoder("qwen3_moe"));
  for (const char *flag : {"--ffn-hidden-size", "--moe-ffn-hidden-size"}) {
    EXPECT_TRUE(verifyModelFlags(mixtral, {{flag, "80"}}).isOk()) << flag;
    EXPECT_FALSE(verifyModelFlags(mixtral, {{flag, "81"}}).isOk()) << flag;
  }
  EXPECT_TRUE(verifyModelFlags(qwen, {{"--ffn-hidden-size", "1"}, {"--moe-ffn-hidden-size", "12"}}).isOk());
  EXPECT_FALSE(verifyModelFlags(qwen, {{"--moe-ffn-hidden-size", "80"}}).isOk());
}

namespace {

void expectSame(const ModelDescription &model, const std::vector<GivenModelFlag> &given) {
  const Status same = verifyModelFlags(model, given);
  EXPECT_TRUE(same.isOk()) << same.message();
}
void expectOther(const ModelDescription &model, const std::vector<GivenModelFlag> &given) {
  for (const GivenModelFlag &one : given)
    EXPECT_FALSE(verifyModelFlags(model, {one}).isOk()) << one.flag << " " << one.value;
}

} // namespace

// Latent attention has sizes of heads of its own, and norms of its latents.
TEST(ModelFlags, OfLatentAttention) {
  const ModelDescription deepseek = model(tinyDecoder("deepseek_v3"));
  expectSame(deepseek, {{"--qk-layernorm", "true"},
                        {"--kv-channels", "128"},
                        {"--qk-nope-head-dim", "12"},
                        {"--qk-rope-head-dim", "4"},
                        {"--rope-type", "rope"},
                        {"--use-rope-scaling", "true"},
                        {"--rotary-scaling-factor", "1"},
                        {"--mscale", "1.0"},
                        {"--mscale-all-dim", "1.0"}});
  expectOther(deepseek, {{"--rope-type", "yarn"}, {"--qk-nope-head-dim", "8"}});
  json scaled = tinyDecoder("deepseek_v3");
  scaled["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 40},
                            {"original_max_position_embeddings", 32},
                            {"mscale", 0.707},
                            {"mscale_all_dim", 1.0}};
  scaled["max_position_embeddings"] = 64;
  const ModelDescription yarn = model(scaled);
  expectSame(yarn, {{"--rope-type", "yarn"},
                    {"--rotary-scaling-factor", "40"},
                    {"--original-max-position-embeddings", "32"},
                    {"--mscale", "0.707"},
                    {"--mscale-all-dim", "1"}});
  expectOther(
      yarn,
      {{"--rope-type", "rope"}, {"--mscale", "1"}, {"--mscale-all-dim", "0.707"}, {"--rotary-scaling-factor", "1"}});
}

// A number of positions is the size of a table, which rotary positions do without.
TEST(ModelFlags, PositionsCountWhereTheyAreLearned) {
  expectSame(model(tinyDecoder("llama")), {{"--max-position-embeddings", "4096"}, {"--rotary-interleaved", "false"}});
  expectOther(model(tinyGpt2()), {{"--max-position-embeddings", "4096"}});
  expectSame(model(tinyGpt2()), {{"--rotary-base", "1000000"}, {"--rotary-percent", "0.5"}});
}

TEST(ModelFlags, NumbersAndWordsAreReadAsPythonAndForksReadThem) {
  expectSame(model(tinyDecoder("llama")),
             {{"--normalization", "rmsnorm"}, {"--hidden-size", "3_2"}, {"--num-key-value-heads", "2"}});
  expectOther(model(tinyDecoder("llama")),
              {{"--hidden-size", "3_"}, {"--hidden-size", "_32"}, {"--normalization", "layernorm"}});
}

TEST(ModelFlags, LayersWithExperts) {
  const ModelDescription mixtral = model(tinyDecoder("mixtral")), deepseek = model(tinyDecoder("deepseek_v3"));
  const std::string layers = std::to_string(mixtral.layerCount()), later = std::to_string(deepseek.layerCount() - 1);
  expectSame(mixtral, {{"--moe-layer-freq", "1"}, {"--moe-layer-freq", "[1]*" + layers}});
  expectOther(
      mixtral,
      {{"--moe-layer-freq", "2"}, {"--moe-layer-freq", "[0]*" + layers}, {"--moe-layer-freq", "[1]*99999999999"}});
  expectSame(deepseek, {{"--moe-layer-freq", "([0]*1 + [1]*" + later + ")"}});
  expectOther(
      deepseek,
      {{"--moe-layer-freq", "1"}, {"--moe-layer-freq", "[0]*1+[1]*"}, {"--moe-layer-freq", std::string(99, '(')}});
  expectSame(model(tinyDecoder("llama")), {{"--moe-layer-freq", "1"}});
}

TEST(ModelFlags, WindowsAndSinks) {
  json config = tinyDecoder("gpt_oss");
  config["sliding_window"] = 128;
  const ModelDescription oss = model(config), llama = model(tinyDecoder("llama"));
  expectSame(oss, {{"--window-size", "127,0"},
                   {"--window-size", "(127, 0)"},
                   {"--sliding-window", "128"},
                   {"--softmax-type", "learnable"},
                   {"--window-attn-skip-freq", "2"},
                   {"--quick-geglu", "true"},
                   {"--glu-linear-offset", "1.0"}});
  expectOther(oss, {{"--window-size", "128,0"},
                    {"--softmax-type", "vanilla"},
                    {"--window-attn-skip-freq", "3"},
                    {"--glu-linear-offset", "0"}});
  expectSame(llama, {{"--softmax-type", "vanilla"}, {"--window-size", "-1,-1"}, {"--window-attn-skip-freq", "2"}});
  expectOther(llama, {{"--window-size", "127,0"}, {"--softmax-type", "learnable"}, {"--quick-geglu", "true"}});
}
