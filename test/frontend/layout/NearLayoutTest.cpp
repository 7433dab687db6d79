// Layouts that do not work: the nearest that does, worlds, ranges and names, all violations at once.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

TEST(LayoutViolation, World) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.tp = 2, .pp = 2, .dp = 3, .world = 8}),
            "config.json: --world 8 is not tp * cp * pp * dp = 2 * 1 * 2 * 3\n"
            "  possible --world with these: 12\n"
            "  possible --dp: 2");
  EXPECT_EQ(errorOf(tinyGpt2(), {.tp = 4, .world = 6}),
            "config.json: --world 6 does not divide over tp * cp * pp = 4 * 1 * 1\n"
            "  possible --world with these: 4, 8, ... (a multiple of 4)\n"
            "  possible tp * cp * pp for this world: 1, 2, 3, 6");
}

// Sizes that work stay; replicas make up for those that do not.
TEST(LayoutViolation, ALayoutNearTheWorld) {
  const auto ranks = [](const LayoutOptions &asked) {
    return suggestion(with(tinyGpt2(), {{"n_layer", 96}, {"n_head", 8}, {"n_embd", 64}}), asked);
  };
  EXPECT_EQ(ranks({.tp = 8, .pp = 35, .world = 2048}).find("--tp 8 --pp 35 --dp 7 "), 0u);  // 1960
  EXPECT_EQ(ranks({.tp = 8, .pp = 35, .world = 2200}).find("--tp 8 --pp 35 --dp 8 "), 0u);  // 2240
  EXPECT_EQ(ranks({.tp = 7, .pp = 4, .world = 2048}).find("--tp 4 --pp 4 --dp 128 "), 0u);  // 2048
  EXPECT_EQ(ranks({.tp = 8, .pp = 100, .world = 1600}).find("--tp 8 --pp 96 --dp 2 "), 0u); // 1536
  EXPECT_EQ(ranks({.tp = 8, .pp = 35, .world = 100}).find("--tp 8 --pp 35 --dp 1 "), 0u);
  EXPECT_EQ(ranks({.tp = 2, .pp = 3, .dp = 5, .world = 64}).find("--tp 2 --pp 3 --dp 5 "), 0u);
}

TEST(LayoutViolation, LayersOfAChunk) {
  EXPECT_EQ(layout(tinyGpt2(), {.pp = 2, .gbs = 4, .layersPerChunk = 1}).virtualStages, 2);
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 2, .layersPerChunk = 3}),
            "config.json: --num-layers-per-virtual-pipeline-stage 3: n_layer = 4 are not so many layers for each chunk "
            "of pp = 2 stages\n  possible with this pp: 1, 2");
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 2, .vpp = 1, .gbs = 4, .layersPerChunk = 1}),
            "config.json: --vpp 1 is not the 2 that --num-layers-per-virtual-pipeline-stage gives\n"
            "  possible: --vpp 2 with it, or one of the two alone");
  EXPECT_EQ(errorOf(tinyGpt2(), {.pp = 2, .vpp = 0, .gbs = 4, .layersPerChunk = 1}),
            "config.json: --vpp 0 is not from 1 to 4096");
}

TEST(Layout, AFlagSilencesTheFilesOtherNameOfIt) {
  EXPECT_EQ(layout(tinyGpt2(), {.pp = 2, .vpp = 1}, {.layersPerChunk = 1}).virtualStages, 1);
  EXPECT_EQ(layout(tinyGpt2(), {.pp = 2, .gbs = 4, .layersPerChunk = 1}, {.vpp = 1}).virtualStages, 2);
}

TEST(Layout, AFlagThatDecidesAnewSilencesTheFilesChoicesWithinIt) {
  const LayoutOptions full{.recomputeGranularity = "full", .recomputeMethod = "uniform", .recomputeLayers = 1};
  EXPECT_EQ(layout(tinyGpt2(), {.recompute = false}, full).recompute, RecomputeGranularity::none);
  EXPECT_EQ(layout(tinyGpt2(), {.recomputeGranularity = "selective"}, full).recompute, RecomputeGranularity::selective);
  EXPECT_EQ(layout(tinyGpt2(), {.memory = "90%"}, full).memory, "90%");
  // The same again, or a choice within it, silences nothing.
  EXPECT_EQ(layout(tinyGpt2(), {.recomputeGranularity = "full"}, full).recomputeMethod, RecomputeMethod::uniform);
  EXPECT_EQ(layout(tinyGpt2(), {.recompute = true}, full).recompute, RecomputeGranularity::full);
  const LayoutOptions offloading{
      .activationOffload = true, .offloadModules = {{"attn_norm"}}, .activationFraction = 0.5};
  EXPECT_EQ(layout(tinyGpt2(), {.activationOffload = false}, offloading).activationOffload, 0);
  EXPECT_FALSE(resolve(tinyGpt2(), {}, offloading).isOk());
}

// Each requested option that causes no conflict stays, in addition to the options of the file.
TEST(LayoutViolation, TheNearLayoutKeepsWhatWasAskedFor) {
  const LayoutOptions asked{.tp = 3,
                            .dp = 2,
                            .lossTile = 16,
                            .bucketSize = 1000,
                            .overlapGradReduce = true,
                            .resetPositionIds = true,
                            .fp32Residual = true,
                            .dtype = "bf16",
                            .gradientType = "bf16",
                            .target = "gpu"};
  EXPECT_EQ(suggestion(tinyGpt2(), asked),
            "--tp 2 --pp 1 --dp 2 --vpp 1 --sp --seq 64 --mbs 1 --gbs 2 --zero 0 --schedule 1f1b --dtype bf16 "
            "--grad-dtype bf16 --fp32-residual-connection --reset-position-ids --loss-tile 16 --overlap-grad-reduce "
            "--ddp-bucket-size 1000 --target gpu");
  EXPECT_EQ(suggestion(tinyGpt2(), {.tp = 3, .cp = 2, .contextOrder = "contiguous"}),
            "--tp 2 --cp 2 --cp-comm-type all_gather --cp-order contiguous --pp 1 --dp 1 --vpp 1 --sp --seq 64 --mbs 1 "
            "--gbs 1 --zero 0 --schedule 1f1b");
}

TEST(LayoutViolation, TheNearLayoutIsWithoutWhatCannotBe) {
  const std::string plain = "--tp 1 --pp 1 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 1 --zero 0 --schedule 1f1b";
  for (const LayoutOptions &asked : {LayoutOptions{.dtype = "fp4"},
                                     {.target = "tpu"},
                                     {.lossTile = -1},
                                     {.contextOrder = "zigzag"},
                                     {.contextTypes = {{"a2a"}}},
                                     {.contextHierarchy = {{2, 2}}},
                                     {.layersPerChunk = 3}})
    EXPECT_EQ(suggestion(tinyGpt2(), asked), plain) << flagsOf(asked);
  EXPECT_EQ(suggestion(tinyGpt2(), {.gradientType = "bf16"}), plain + " --grad-dtype f32");
  EXPECT_EQ(suggestion(tinyGpt2(), {.fp32Residual = true}), plain + " --no-fp32-residual-connection");
  const std::string ahead = suggestion(tinyGpt2(), {.dp = 2, .zero = 1, .overlapParamGather = true});
  EXPECT_NE(ahead.find(" --overlap-grad-reduce --overlap-param-gather"), std::string::npos) << ahead;
  EXPECT_EQ(suggestion(tinyGpt2(), {.bucketSize = 100}), plain + " --overlap-grad-reduce --ddp-bucket-size 100");
}

TEST(LayoutViolation, TokensOfAStep) {
  const json config = with(tinyGpt2(), {{"n_positions", 1 << 22}});
  EXPECT_EQ(errorOf(config, {.seq = 1 << 22, .mbs = 1 << 20}),
            "config.json: --gbs 1048576 with --seq 4194304: a step has more than 1099511627776 tokens\n"
            "  possible --gbs with this --seq and mbs * dp = 1048576: none\n"
            "  possible --seq with this --gbs: 1 to 1048576");
  EXPECT_EQ(suggestion(config, {.seq = 1 << 22, .mbs = 1 << 20})
                .find("--tp 1 --pp 1 --dp 1 --vpp 1 --no-sp --seq 4194304 --mbs 2"),
            0u);
  EXPECT_EQ(errorOf(config, {.seq = 1 << 20, .mbs = 1 << 10, .gbs = 1 << 20}), "");
}

TEST(LayoutViolation, WorldsBeyondTheMost) {
  const std::string message = errorOf(tinyGpt2(), {.tp = 1 << 16, .world = 1 << 24, .cp = 1 << 16});
  EXPECT_NE(message.find("possible --world with these: none, 16777216 is the most\n"), message.npos) << message;
  EXPECT_NE(message.find("32768, ..., 16777216"), message.npos) << message;
}

TEST(LayoutViolation, UnknownWordsOfTheFileThatNothingReads) {
  EXPECT_EQ(resolve(tinyGpt2(), {}, {.contextOrder = "foo", .contextTypes = {{"a2a", "x"}}}).status().message(),
            "config.json: mgc.cp_comm_type: 'x' is not known\n  possible cp_comm_type: all_gather, a2a, a2a+p2p, "
            "a2a+all_gather, p2p\n"
            "config.json: mgc.cp_order: 'foo' is not known\n  possible cp_order: zigzag, contiguous");
  EXPECT_TRUE(resolve(tinyGpt2(), {}, {.contextHierarchy = {{7, 9}}}).isOk());
  EXPECT_TRUE(resolve(tinyGpt2(), {}, {.cp = 2, .contextHierarchy = {{7, 9}}}).isOk());
}

TEST(LayoutViolation, TheNearLayoutWorksBesideTheFile) {
  const auto near = [&](const LayoutOptions &flags, const LayoutOptions &defaults) {
    const std::string message = resolve(tinyGpt2(), flags, defaults).status().message();
    const size_t last = message.rfind("works: ");
    return last == message.npos ? message : message.substr(last + 7);
  };
  EXPECT_EQ(
      near({.tp = 3}, {.world = 8, .cp = 2}).find("--tp 2 --cp 2 --cp-comm-type all_gather --pp 1 --dp 2 --world 8 "),
      0u)
      << near({.tp = 3}, {.world = 8, .cp = 2});
  EXPECT_EQ(near({.tp = 3}, {.cp = 7}).substr(0, 52), "--tp 2 --cp 4 --cp-comm-type all_gather --pp 1 --dp ");
  EXPECT_EQ(near({.world = 7, .seq = 33, .cp = 3}, {}).substr(0, 7), "--tp 1 ");
  EXPECT_EQ(near({}, {.dtype = "f32", .gradientType = "bf16"}).substr(0, 7), "--tp 1 ");
  EXPECT_EQ(near({}, {.fp32Residual = true}).substr(0, 7), "--tp 1 ");
  EXPECT_EQ(near({.tp = 3}, {.layersPerChunk = 5}).substr(0, 7), "--tp 2 ");
}

TEST(LayoutViolation, HugeWorld) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.world = INT64_MAX}),
            "config.json: --world 9223372036854775807 is not from 1 to 16777216");
}

TEST(LayoutViolation, RangesAndNames) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.tp = 0, .pp = -1, .zero = 4, .dtype = "f16", .target = "tpu"}),
            "config.json: --tp 0 is not from 1 to 65536\n"
            "config.json: --pp -1 is not from 1 to 65536\n"
            "config.json: --zero 4 is not from 0 to 3\n"
            "config.json: --dtype f16 is not known\n  possible --dtype: f32, bf16\n"
            "config.json: --target tpu is not known\n  possible --target: cpu, gpu");
}

// Gradients are as wide as parameters, or f32.
TEST(LayoutViolation, GradientTypes) {
  EXPECT_EQ(errorOf(tinyGpt2(), {.gradientType = "bf16"}),
            "config.json: --grad-dtype bf16 with --dtype f32: gradients would be coarser than parameters\n"
            "  possible --grad-dtype with --dtype f32: f32");
  EXPECT_EQ(errorOf(tinyGpt2(), {.dtype = "bf16", .gradientType = "f64"}),
            "config.json: --grad-dtype f64 is not known\n  possible --grad-dtype: f32, bf16");
  EXPECT_EQ(layout(tinyGpt2(), {.dtype = "bf16", .gradientType = "bf16"}).gradientType, mgc::plan::DType::bf16);
  EXPECT_EQ(layout(tinyGpt2(), {.dtype = "bf16"}).gradientType, mgc::plan::DType::f32);
}

// Nearest: what is not wrong stays as it was given, what is wrong becomes the next smaller that fits.
TEST(LayoutViolation, ALayoutThatWorks) {
  EXPECT_EQ(suggestion(tinyGpt2(), {.tp = 3, .pp = 8, .dp = 2, .seq = 66, .gbs = 3}),
            "--tp 2 --pp 4 --dp 2 --vpp 1 --sp --seq 64 --mbs 1 --gbs 2 --zero 0 --schedule 1f1b");
  EXPECT_EQ(suggestion(tinyGpt2(), {.tp = 4, .seq = 34}),
            "--tp 4 --pp 1 --dp 1 --vpp 1 --no-sp --seq 34 --mbs 1 --gbs 1 --zero 0 --schedule 1f1b");
  EXPECT_EQ(suggestion(tinyGpt2(), {.pp = 4, .vpp = 2, .schedule = "interleaved"}),
            "--tp 1 --pp 4 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 4 --zero 0 --schedule 1f1b");
  EXPECT_EQ(suggestion(tinyGpt2(), {.pp = 2, .vpp = 2, .schedule = "zb-h1"}),
            "--tp 1 --pp 2 --dp 1 --vpp 2 --no-sp --seq 64 --mbs 1 --gbs 2 --zero 0 --schedule interleaved");
  EXPECT_EQ(suggestion(tinyGpt2(), {.pp = 2, .gbs = 1, .zero = 9, .schedule = "gpipe"}),
            "--tp 1 --pp 2 --dp 1 --vpp 1 --no-sp --seq 64 --mbs 1 --gbs 1 --zero 0 --schedule gpipe");
}

TEST(LayoutViolation, AllAtOnce) {
  std::string message = errorOf(tinyGpt2(), {.tp = 3, .pp = 8, .dp = 2, .seq = 66, .gbs = 3});
  for (const char *part : {"n_head = 4", "n_inner = 128", "n_positions = 64", "--gbs 3", "n_layer = 4"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
}

} // namespace
