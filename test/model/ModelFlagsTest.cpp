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
