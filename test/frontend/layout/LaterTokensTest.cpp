// Modules that predict later tokens: for which models and layouts there are any.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

json deepseek(int64_t inFile) { return with(tinyDecoder("deepseek_v3"), {{"num_nextn_predict_layers", inFile}}); }

TEST(LayoutLaterTokens, NoneUnlessAskedFor) {
  const Layout none = layout(tinyDecoder("llama"), {});
  EXPECT_EQ(none.laterTokens, 0);
  EXPECT_EQ(reasonOf(none, "--mtp-num-layers"), "");
  const Layout standard = layout(tinyDecoder("llama"), {.laterTokens = 2});
  EXPECT_EQ(standard.laterTokens, 2);
  EXPECT_EQ(standard.laterTokensFactor, 0.1);
  EXPECT_EQ(reasonOf(standard, "--mtp-loss-scaling-factor"), "0.1: as Megatron-LM");
  EXPECT_EQ(layout(tinyDecoder("llama"), {.laterTokensFactor = 0.3}, {.laterTokens = 1}).laterTokensFactor, 0.3);
}

TEST(LayoutLaterTokens, Refused) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.laterTokens = 1}),
            "config.json: --mtp-num-layers 1: the family gpt2 has no names for the tensors of such modules\n"
            "  possible --mtp-num-layers: 0");
  EXPECT_EQ(errorOf(with(tinyDecoder("mixtral"), {{"output_router_logits", true}}), {.gbs = 1, .laterTokens = 1}),
            "config.json: --mtp-num-layers 1 with output_router_logits: the auxiliary loss pools the layers of "
            "the model, and these are none\n  possible --mtp-num-layers: 0");
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.seq = 4, .laterTokens = 4}),
            "config.json: --mtp-num-layers 4 with --seq 4: no token has one so far ahead\n"
            "  possible --mtp-num-layers: 0 to 3");
  EXPECT_NE(suggestion(tinyDecoder("llama"), {.seq = 4, .laterTokens = 4}).find("--mtp-num-layers 3"),
            std::string::npos);
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.laterTokens = 1, .laterTokensFactor = 0}),
            "config.json: --mtp-num-layers 1 with --mtp-loss-scaling-factor 0: nothing would train these "
            "modules\n  expected a factor larger than 0, or without --mtp-num-layers");
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.laterTokensFactor = 0.5}),
            "config.json: --mtp-loss-scaling-factor 0.5 without --mtp-num-layers: no module predicts later "
            "tokens\n  possible: with --mtp-num-layers 1 or more, or without it");
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.laterTokens = 65}), "config.json: --mtp-num-layers 65 is not from 0 to 64");
}

// Nothing of a checkpoint is lost without a word.
TEST(LayoutLaterTokens, ModulesOfTheCheckpointThatAreNotTrained) {
  const auto warnings = [](int64_t inFile, int64_t laterTokens) {
    return layout(deepseek(inFile), {.laterTokens = laterTokens}).warnings;
  };
  EXPECT_EQ(warnings(2, 1),
            (std::vector<std::string>{"num_nextn_predict_layers = 2, --mtp-num-layers = 1: the other modules of a "
                                      "checkpoint are not loaded, and not in weights that are saved"}));
  EXPECT_EQ(layout(deepseek(1), {}).warnings.size(), 1u);
  EXPECT_TRUE(warnings(1, 1).empty());
  EXPECT_TRUE(warnings(0, 2).empty());
}

} // namespace
