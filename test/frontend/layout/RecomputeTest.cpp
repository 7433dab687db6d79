// Options of recomputation: what they set, and what contradicts.
#include "dialects/mg/training/MemorySize.h"
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

using Modules = std::vector<std::string>;

std::string warningOf(const json &config, const LayoutOptions &flags) {
  const std::vector<std::string> warnings = layout(config, flags).warnings;
  return warnings.empty() ? "" : warnings.front();
}

TEST(LayoutRecompute, StandardUnlessAskedFor) {
  EXPECT_EQ(layout(tinyGpt2(), {}).recompute, RecomputeGranularity::standard);
  EXPECT_EQ(layout(tinyGpt2(), {.recompute = true}).recompute, RecomputeGranularity::standard);
  EXPECT_EQ(layout(tinyGpt2(), {.recompute = false}).recompute, RecomputeGranularity::none);
  EXPECT_EQ(layout(tinyGpt2(), {}, {.recompute = false}).recompute, RecomputeGranularity::none);
}

TEST(LayoutRecompute, Selective) {
  const Layout standard = layout(tinyGpt2(), {.recomputeGranularity = "selective"});
  EXPECT_EQ(standard.recompute, RecomputeGranularity::selective);
  EXPECT_EQ(standard.recomputeModules, Modules{"core_attn"});
  EXPECT_EQ(layout(tinyGpt2(), {.recomputeActivations = true}).recomputeModules, Modules{"core_attn"});
  EXPECT_EQ(layout(tinyDecoder("mixtral"), {.moeLayerRecompute = true}).recomputeModules, Modules{"moe"});
  EXPECT_EQ(layout(tinyGpt2(), {.recomputeGranularity = "selective", .recomputeModules = Modules{"mlp", "core_attn"}})
                .recomputeModules,
            (Modules{"mlp", "core_attn"}));
}

TEST(LayoutRecompute, Full) {
  const Layout full =
      layout(tinyGpt2(), {.recomputeGranularity = "full", .recomputeMethod = "block", .recomputeLayers = 2});
  EXPECT_EQ(full.recompute, RecomputeGranularity::full);
  EXPECT_EQ(full.recomputeMethod, RecomputeMethod::block);
  EXPECT_EQ(full.recomputeLayers, 2);
}

TEST(LayoutRecompute, Memory) {
  EXPECT_EQ(layout(tinyGpt2(), {.memory = "22GiB"}).memory, "22GiB");
  const std::string possible = "\n  possible: bytes (80GB, 22GiB, 512MiB), or a part of what the machine has (90%)";
  for (const auto &[text, why] :
       std::vector<std::pair<std::string, std::string>>{{"0", "0 is not from 1 byte to 4 EiB"},
                                                        {"-3", "-3 is not from 1 byte to 4 EiB"},
                                                        {"1e30GB", "1e30GB is not from 1 byte to 4 EiB"},
                                                        {"nan", "'nan' is no size"},
                                                        {"GB", "'GB' is no size"},
                                                        {"", "'' is no size"},
                                                        {"80gigabytes", "'80gigabytes' has no unit that is known"},
                                                        {"80 GB x", "'80 GB x' has no unit that is known"},
                                                        {"0%", "0% is not above 0 and at most 100 %"},
                                                        {"101%", "101% is not above 0 and at most 100 %"}})
    EXPECT_EQ(errorOf(tinyGpt2(), {.memory = text}), "config.json: --memory " + why + possible);
  EXPECT_EQ(errorOf(tinyGpt2(), {.recomputeActivations = true, .memory = "1GB"}).substr(0, 70),
            "config.json: --memory 1GB with an option of what is recomputed: it cho");
}

TEST(LayoutRecompute, SizesOfMemory) {
  const auto bytesOf = [](std::string_view text) { return parseMemorySize(text)->bytes; };
  EXPECT_EQ(bytesOf("1000"), 1000);
  EXPECT_EQ(bytesOf("80GB"), 80'000'000'000);
  EXPECT_EQ(bytesOf("1.5 KiB"), 1536);
  EXPECT_EQ(bytesOf("2TiB"), int64_t(2) << 40);
  EXPECT_EQ(parseMemorySize("90%")->share, 0.9);
}

TEST(LayoutRecompute, WhatIsAlwaysRecomputedIsSaid) {
  const LayoutOptions norms{.recomputeGranularity = "selective", .recomputeModules = Modules{"layernorm"}};
  EXPECT_EQ(layout(tinyGpt2(), norms).recompute, RecomputeGranularity::standard);
  EXPECT_EQ(warningOf(tinyGpt2(), norms), "--recompute-modules layernorm does nothing here: it is recomputed anyway, "
                                          "unless --no-recompute is given");
}

TEST(LayoutRecompute, RefusesModulesThatTheModelLacks) {
  const auto asked = [](const std::string &module) {
    return LayoutOptions{.recomputeGranularity = "selective", .recomputeModules = Modules{module}};
  };
  const std::string ofGpt2 = "\n  possible with this model: core_attn, layernorm, mlp";
  EXPECT_EQ(errorOf(tinyGpt2(), asked("moe")),
            "config.json: --recompute-modules moe: the model has no experts" + ofGpt2);
  EXPECT_EQ(errorOf(tinyGpt2(), asked("mla_up_proj")),
            "config.json: --recompute-modules mla_up_proj: the model has no latent attention" + ofGpt2);
  EXPECT_EQ(errorOf(tinyGpt2(), asked("mlp_act")), "config.json: --recompute-modules mlp_act is not known" + ofGpt2);
  EXPECT_EQ(errorOf(tinyGpt2(), asked("gdn_norm_out")),
            "config.json: --recompute-modules gdn_norm_out is of linear attention (gated delta net), which no model "
            "has here" +
                ofGpt2);
  EXPECT_EQ(errorOf(tinyDecoder("mixtral"), asked("mlp")),
            "config.json: --recompute-modules mlp: the model has no dense layers\n"
            "  possible with this model: core_attn, layernorm, moe, moe_act");
}

TEST(LayoutRecompute, RefusesContradictionsAsMegatronDoes) {
  EXPECT_EQ(
      errorOf(tinyGpt2(), {.recomputeGranularity = "selective", .recomputeLayers = 2}),
      "config.json: --recompute-num-layers without --recompute-granularity full: all layers recompute the modules\n"
      "  possible: --recompute-granularity full with it, or without --recompute-num-layers");
  EXPECT_EQ(errorOf(tinyGpt2(), {.recomputeGranularity = "full"}),
            "config.json: --recompute-granularity full without --recompute-method and --recompute-num-layers\n"
            "  possible: --recompute-method uniform --recompute-num-layers 1, all layers; --recompute-method block "
            "--recompute-num-layers N, the first N of each stage");
  EXPECT_EQ(errorOf(tinyGpt2(), {.recompute = false, .recomputeActivations = true}),
            "config.json: --no-recompute with an option of what is recomputed: it saves all that backward reads\n"
            "  possible: without --no-recompute, or without the others");
  EXPECT_EQ(errorOf(tinyGpt2(), {.recomputeModules = Modules{"mlp"}}),
            "config.json: --recompute-modules without --recompute-granularity selective: nothing reads it\n"
            "  possible: --recompute-granularity selective with it, or without --recompute-modules");
  EXPECT_EQ(errorOf(tinyGpt2(), {.recomputeGranularity = "none"}),
            "config.json: --recompute-granularity none is not known\n"
            "  possible --recompute-granularity: selective, full");
  EXPECT_EQ(errorOf(tinyGpt2(), {.recomputeGranularity = "full", .recomputeMethod = "uniform", .recomputeLayers = 0}),
            "config.json: --recompute-num-layers 0 is not from 1 to 65536");
  EXPECT_EQ(
      errorOf(tinyGpt2(), {.pp = 2,
                           .schedule = "zb-h1",
                           .recomputeGranularity = "full",
                           .recomputeMethod = "uniform",
                           .recomputeLayers = 2}),
      "config.json: --recompute-num-layers 2 with --recompute-method uniform: schedule zb-h1 computes gradients of "
      "weights in a pass of its own, until which recomputed layers of a unit would have to stay\n"
      "  possible: --recompute-num-layers 1 with it, --recompute-method block, or --schedule 1f1b");
  EXPECT_NE(suggestion(tinyGpt2(), {.recomputeGranularity = "full"}).find("--recompute-num-layers 1"),
            std::string::npos);
}

} // namespace
