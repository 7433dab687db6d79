// --freeze: which parameters each word freezes, and which words are refused.
#include "frontend/layout/Frozen.h"
#include "test/frontend/layout/LayoutCases.h"

#include <fmt/ranges.h>

using namespace mgc;
using namespace mgc::frontend;

namespace {

using Words = std::vector<std::string>;

// Roles outside the layers that are frozen, in the order of the model's parameters.
std::string frozenOutside(const json &config, const Words &words) {
  const ModelDescription described = model(config);
  const Layout resolved = layout(config, {.freeze = words});
  const FrozenParameters frozen(described, resolved);
  std::vector<std::string> roles;
  for (const ModelParameter &parameter : described.parameters)
    if (frozen.has(parameter, 0))
      roles.push_back(parameter.role);
  return fmt::format("{}", fmt::join(roles, " "));
}

// Number of frozen parameters by layer.
std::vector<int64_t> frozenOfLayers(const json &config, const Words &words) {
  const ModelDescription described = model(config);
  const Layout resolved = layout(config, {.freeze = words});
  const FrozenParameters frozen(described, resolved);
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < described.layerCount(); ++i)
    counts.push_back(std::ranges::count(frozen.of(described.kinds[described.layers[i]].parameters, i), true));
  return counts;
}

TEST(LayoutFrozen, NothingUnlessAskedFor) {
  const Layout none = layout(tinyDecoder("llama"), {});
  EXPECT_EQ(none.freeze, "");
  EXPECT_EQ(reasonOf(none, "--freeze"), "");
  const Layout some = layout(tinyDecoder("llama"), {.freeze = Words{"embeddings", "layers:0-1"}});
  EXPECT_EQ(some.freeze, "embeddings,layers:0-1");
  EXPECT_EQ(layout(tinyDecoder("llama"), {}, {.freeze = Words{"head"}}).freeze, "head");
}

TEST(LayoutFrozen, PartsOfADecoder) {
  const json llama = tinyDecoder("llama");
  EXPECT_EQ(frozenOutside(llama, {"embeddings"}), "embed.tokens");
  EXPECT_EQ(frozenOutside(llama, {"norm"}), "final_norm.weight");
  EXPECT_EQ(frozenOutside(llama, {"head"}), "head.weight");
  EXPECT_EQ(frozenOutside(llama, {"layers"}), "");
  EXPECT_EQ(frozenOfLayers(llama, {"layers"}), (std::vector<int64_t>{9, 9, 9, 9}));
  EXPECT_EQ(frozenOfLayers(llama, {"layers:1"}), (std::vector<int64_t>{0, 9, 0, 0}));
  EXPECT_EQ(frozenOfLayers(llama, {"layers:0-1", "layers:3"}), (std::vector<int64_t>{9, 9, 0, 9}));
  EXPECT_EQ(frozenOfLayers(llama, {"embeddings", "norm", "head"}), (std::vector<int64_t>{0, 0, 0, 0}));
}

TEST(LayoutFrozen, Patterns) {
  const json llama = tinyDecoder("llama");
  EXPECT_EQ(frozenOfLayers(llama, {"model.layers.2.mlp.*"}), (std::vector<int64_t>{0, 0, 3, 0}));
  EXPECT_EQ(frozenOfLayers(llama, {"*_proj.weight"}), (std::vector<int64_t>{7, 7, 7, 7}));
  EXPECT_EQ(frozenOfLayers(llama, {"*.1.*q_proj*"}), (std::vector<int64_t>{0, 1, 0, 0}));
  EXPECT_EQ(frozenOfLayers(llama, {"**l*s.3*.o*o*t"}), (std::vector<int64_t>{0, 0, 0, 1}));
  EXPECT_NE(errorOf(llama, {.freeze = Words{std::string(60, '*') + "x"}}).find("no tensor has such a name"),
            std::string::npos);
  EXPECT_EQ(frozenOutside(llama, {"model.embed_tokens.weight"}), "embed.tokens");
  EXPECT_EQ(frozenOutside(tinyGpt2(), {"transformer.wpe.*"}), "embed.positions");
}

// q, k and v of GPT-2 are views of one tensor.
TEST(LayoutFrozen, ATensorIsFrozenAsAWhole) {
  const std::vector<int64_t> counts = frozenOfLayers(tinyGpt2(), {"transformer.h.0.attn.c_attn.weight"});
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 0, 0, 0}));
}

TEST(LayoutFrozen, ATiedTableIsFrozenByEitherPart) {
  const json gpt2 = tinyGpt2();
  EXPECT_EQ(frozenOutside(gpt2, {"embeddings"}), "embed.tokens embed.positions");
  EXPECT_EQ(frozenOutside(gpt2, {"head"}), "embed.tokens");
  EXPECT_EQ(layout(gpt2, {.freeze = Words{"head"}}).warnings,
            (Words{"--freeze head: transformer.wte.weight is tied, and so frozen for embeddings too"}));
  EXPECT_TRUE(layout(gpt2, {.freeze = Words{"head", "embeddings"}}).warnings.empty());
  EXPECT_TRUE(layout(gpt2, {.freeze = Words{"layers"}}).warnings.empty());
}

TEST(LayoutFrozen, PartsOfAnEncoder) {
  const json bart = tinyBart();
  const ModelDescription described = model(bart);
  const Layout resolved = layout(bart, {.freeze = Words{"encoder.layers:1", "encoder.embeddings"}});
  const FrozenParameters frozen(described, resolved);
  const auto isFrozen = [&](const std::vector<ModelParameter> &parameters, int64_t instance) {
    return std::ranges::count(frozen.of(parameters, instance), true) > 0;
  };
  EXPECT_FALSE(isFrozen(described.encoderLayer, 0));
  EXPECT_TRUE(isFrozen(described.encoderLayer, 1));
  EXPECT_FALSE(isFrozen(described.kinds[0].parameters, 1));
  EXPECT_EQ(frozenOutside(bart, {"encoder.embeddings"}),
            "embed.tokens encoder.embed.positions encoder.embed_norm.weight encoder.embed_norm.bias");
  EXPECT_NE(errorOf(bart, {.freeze = Words{"encoder.norm"}}).find("the model has no such part"), std::string::npos);
  const Words warnings = layout(bart, {.freeze = Words{"encoder"}}).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("is tied, and so frozen for embeddings and head too"), std::string::npos) << warnings[0];
}

TEST(LayoutFrozen, Refused) {
  const json llama = tinyDecoder("llama");
  const std::string possible = "embeddings, layers, layers:0, norm, head, or tensors, such as "
                               "model.layers.0.input_layernorm.weight";
  const auto refusal = [&](const std::string &word) { return errorOf(llama, {.freeze = Words{word}}); };
  EXPECT_EQ(refusal("layer"),
            "config.json: --freeze layer: no part is called so, and no tensor has such a name\n  possible: " +
                possible);
  EXPECT_EQ(refusal("encoder"), "config.json: --freeze encoder: the model has no such part\n  possible: " + possible);
  EXPECT_EQ(refusal("layers:x"), "config.json: --freeze layers:x: expected one layer or a range of layers "
                                 "behind the colon\n  possible: " +
                                     possible);
  EXPECT_EQ(refusal("head:1"),
            "config.json: --freeze head:1: expected one layer or a range of layers behind the colon\n  possible: " +
                possible);
  EXPECT_EQ(refusal("layers:3-1").substr(0, 40), "config.json: --freeze layers:3-1: expect");
  EXPECT_EQ(refusal("layers:2-4"),
            "config.json: --freeze layers:2-4: the model has 4 such layers\n  possible: layers:0-3");
  EXPECT_EQ(refusal("*"), "config.json: --freeze *: the optimizer would train nothing\n"
                          "  expected some parameter that is not frozen");
  EXPECT_EQ(suggestion(llama, {.freeze = Words{"*"}}).find("--freeze"), std::string::npos);
}

// The experts of a layer are one parameter.
TEST(LayoutFrozen, AStackIsFrozenAsAWhole) {
  const json mixtral = tinyDecoder("mixtral");
  EXPECT_NE(layout(mixtral, {.freeze = Words{"*.experts.*"}}).freeze, "");
  const std::string message = errorOf(mixtral, {.freeze = Words{"*.0.*.experts.1.*"}});
  EXPECT_NE(message.find("matches 1 of the "), std::string::npos) << message;
  EXPECT_NE(message.find("expected all experts of a layer or none: one parameter holds them"), std::string::npos);
}

// A bias that load moves is nothing that the optimizer trains.
TEST(LayoutFrozen, SomethingIsTrained) {
  const json deepseek = tinyDecoder("deepseek_v3");
  EXPECT_NE(errorOf(deepseek, {.freeze = Words{"*.weight"}}).find("the optimizer would train nothing"),
            std::string::npos);
  EXPECT_TRUE(layout(deepseek, {.countsLoad = true, .freeze = Words{"*.mlp.gate.*"}}).countsLoad);
  EXPECT_FALSE(layout(deepseek, {.countsLoad = true}).countsLoad);
}

} // namespace
