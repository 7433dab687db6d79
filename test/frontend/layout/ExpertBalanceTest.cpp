// Terms of the loss that balance experts: which are possible, and why others are not.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

const std::string kType = "--moe-router-load-balancing-type ";

json pooled() { return with(tinyDecoder("mixtral"), {{"output_router_logits", true}}); }

TEST(LayoutBalance, Terms) {
  const Layout none = layout(tinyDecoder("mixtral"), {});
  EXPECT_EQ(none.balanceType, "none");
  EXPECT_EQ(reasonOf(none, "--moe-router-load-balancing-type"), "none: no term unless asked for");
  EXPECT_EQ(none.auxLossCoefficient, 0);
  const Layout both = layout(tinyDecoder("qwen3_moe"),
                             {.auxLossCoefficient = 0.01, .zLossCoefficient = 0.001, .balanceType = "seq_aux_loss"});
  EXPECT_EQ(both.balanceType, "seq_aux_loss");
  EXPECT_EQ(both.auxLossCoefficient, 0.01);
  EXPECT_EQ(both.zLossCoefficient, 0.001);
  EXPECT_EQ(reasonOf(layout(tinyGpt2(), {}), "--moe-router-load-balancing-type"), "");
}

TEST(LayoutBalance, FormsThatDependOnTheLayoutAreRefusedByName) {
  const std::string others = "; seq_aux_loss balances each sequence, the same in every layout\n  possible " +
                             kType.substr(0, kType.size() - 1) + ": none, seq_aux_loss";
  for (const auto &[type, why] :
       {std::pair<std::string, std::string>{"aux_loss", "multiplies the means of the tokens that one microbatch has on "
                                                        "a group of ranks, so it is another loss in every layout"},
        {"global_aux_loss",
         "uses the load of the microbatches that came before, so it depends on their size and order"},
        {"sinkhorn", "iterates over the tokens of one microbatch on a group of ranks, so experts are chosen otherwise "
                     "in every layout"}}) {
    const std::string message =
        resolve(tinyDecoder("mixtral"), {.auxLossCoefficient = 0.1, .balanceType = type}).status().message();
    EXPECT_NE(message.find("config.json: " + kType + type + " " + why + others), std::string::npos) << message;
    const std::string ofFile = resolve(tinyDecoder("mixtral"), {}, {.balanceType = type}).status().message();
    EXPECT_NE(ofFile.find("config.json: mgc.moe_router_load_balancing_type: '" + type + "' " + why), std::string::npos)
        << ofFile;
  }
  const std::string unknown = resolve(tinyDecoder("mixtral"), {.balanceType = "fair"}).status().message();
  EXPECT_NE(unknown.find(kType + "fair is not known"), std::string::npos) << unknown;
}

std::string firstOf(const json &config, const LayoutOptions &flags) {
  const std::string message = resolve(config, flags).status().message();
  return message.substr(0, message.find("\n  a layout that works"));
}

TEST(LayoutBalance, Coefficients) {
  EXPECT_EQ(firstOf(tinyDecoder("mixtral"), {.balanceType = "seq_aux_loss"}),
            "config.json: " + kType +
                "seq_aux_loss: its coefficient is 0\n"
                "  expected --moe-aux-loss-coeff larger than 0, or without --moe-router-load-balancing-type");
  EXPECT_EQ(firstOf(tinyDecoder("mixtral"), {.auxLossCoefficient = 0.5}),
            "config.json: --moe-aux-loss-coeff 0.5 with " + kType +
                "none: no term has it\n"
                "  possible: " +
                kType + "seq_aux_loss");
  EXPECT_EQ(firstOf(tinyGpt2(), {.zLossCoefficient = 0.5}),
            "config.json: --moe-router-load-balancing-type, --moe-aux-loss-coeff or --moe-z-loss-coeff: the model has "
            "no experts\n  expected none of these for family gpt2");
}

TEST(LayoutBalance, Capacity) {
  const Layout asked = layout(tinyDecoder("mixtral"), {.capacityFactor = 1.25});
  EXPECT_EQ(asked.capacityFactor, 1.25);
  EXPECT_EQ(asked.dropPolicy, "probs");
  EXPECT_EQ(layout(tinyDecoder("mixtral"), {.capacityFactor = 1.25, .dropPolicy = "position"}).dropPolicy, "position");
  EXPECT_EQ(layout(tinyDecoder("mixtral"), {.rowsFactor = 1.5}).rowsFactor, 1.5);
  EXPECT_EQ(layout(tinyDecoder("mixtral"), {}).rowsFactor, 0);
  EXPECT_EQ(firstOf(tinyDecoder("mixtral"), {.rowsFactor = 0.9}),
            "config.json: --moe-rows-factor 0.9: is less than the mean rows of experts, with which steps would end\n"
            "  possible: --moe-rows-factor 2, or 0 for all rows that may come");
  EXPECT_EQ(firstOf(tinyGpt2(), {.rowsFactor = 2}), "config.json: --moe-rows-factor 2: the model has no experts\n"
                                                    "  expected none for family gpt2");
  EXPECT_EQ(firstOf(tinyGpt2(), {.capacityFactor = 1}),
            "config.json: --moe-expert-capacity-factor 1: the model has no experts\n"
            "  expected none for family gpt2");
  EXPECT_EQ(firstOf(tinyDecoder("mixtral"), {.dropPolicy = "position"}),
            "config.json: --moe-token-drop-policy position without --moe-expert-capacity-factor: no choice is "
            "dropped\n  possible: --moe-expert-capacity-factor 1.25");
}

TEST(LayoutBalance, CountsLoad) {
  EXPECT_FALSE(layout(tinyDecoder("mixtral"), {}).countsLoad);
  EXPECT_TRUE(layout(tinyDecoder("mixtral"), {.countsLoad = true}).countsLoad);
  EXPECT_EQ(firstOf(tinyGpt2(), {.countsLoad = true}),
            "config.json: --moe-per-layer-logging: the model has no experts\n  expected none for family gpt2");
  EXPECT_EQ(suggestion(tinyGpt2(), {.tp = 3, .countsLoad = true}).find("--moe-per-layer-logging"), std::string::npos);
}

TEST(LayoutBalance, PooledOverTheStepInOneMicrobatchOfOneStage) {
  EXPECT_EQ(layout(pooled(), {.tp = 2, .dp = 2, .mbs = 2, .gbs = 4}).microbatches, 1);
  const std::string message = resolve(pooled(), {.pp = 2, .dp = 2, .mbs = 2, .gbs = 8}).status().message();
  EXPECT_NE(
      message.find(
          "config.json: output_router_logits: the auxiliary loss pools all tokens of the step, so backward needs the "
          "load of the experts by all of them; with 2 microbatches, backward of the first runs before forward of the "
          "last\n  possible --gbs with --mbs 2 and dp = 2: 4, which is one microbatch; or output_router_logits false "
          "with --moe-router-load-balancing-type seq_aux_loss, which balances each sequence"),
      std::string::npos)
      << message;
  EXPECT_NE(message.find("config.json: output_router_logits with pp = 2: "), std::string::npos) << message;
  EXPECT_EQ(layout(with(pooled(), {{"router_aux_loss_coef", 0.0}}), {.gbs = 8}).microbatches, 8);
}

} // namespace
