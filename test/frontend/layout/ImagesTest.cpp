// Layouts of models that read images: how many positions a tower has, and what such a model cannot have.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc::frontend;

namespace {

json tower(const json &edit) {
  json config = tinyLlava();
  config["vision_config"].update(edit);
  return config;
}

TEST(LayoutImages, PositionsAreThoseOfAnImage) {
  EXPECT_EQ(layout(tinyLlava(), {.seq = 16}).encoderLength, 10);
  EXPECT_EQ(layout(tinyLlava(), {.tp = 2, .seq = 16}).encoderLength, 10);
  EXPECT_EQ(layout(tinyLlava(), {.tp = 2, .seq = 16, .sp = false}).encoderLength, 10);
  EXPECT_EQ(errorOf(tinyLlava(), {.seq = 16, .encoderLength = 24}),
            "config.json: --encoder-seq-length 24: the encoder reads images\n"
            "  possible: without it, which is 10 positions of an image");
  EXPECT_EQ(errorOf(tinyLlava(), {.seq = 8}), "config.json: --seq 8: an image of vision_config.image_size takes the "
                                              "places of 9 tokens, and then there is none to predict\n"
                                              "  possible --seq: 10 or more");
  EXPECT_NE(suggestion(tinyLlava(), {.seq = 9}).find("--seq 10"), std::string::npos);
}

TEST(LayoutImages, RanksOfSequenceParallelismShareThemPadded) {
  const json config = tower({{"image_size", 16}}); // 17 positions
  EXPECT_EQ(layout(config, {.tp = 2, .seq = 18}).encoderLength, 18);
  EXPECT_EQ(layout(config, {.tp = 2, .seq = 18, .sp = false}).encoderLength, 17);
}

TEST(LayoutImages, HeadsOfTheTowerDivideAndSplitAsTheDecoders) {
  EXPECT_EQ(errorOf(tower({{"num_attention_heads", 3}}), {.tp = 2, .seq = 16}),
            "config.json: vision_config.num_attention_heads = 3 does not divide over tp = 2\n"
            "  possible tp: 1, 3");
  EXPECT_EQ(errorOf(tinyLlava(), {.tp = 4, .seq = 16}),
            "config.json: tp = 4: layers with 2 and with 4 groups of keys split over it in different ways\n"
            "  possible tp: 1, 2");
}

TEST(LayoutImages, StagesShareOutTheLayersOfBoth) {
  EXPECT_EQ(layout(tinyLlava(), {.pp = 4, .seq = 16}).pp, 4); // 2 + 2 layers
}

TEST(LayoutImages, WhatTheyCannotHave) {
  EXPECT_EQ(errorOf(tinyLlava(), {.seq = 16, .cp = 2}),
            "config.json: cp = 2: llava has an encoder, whose sequence context parallelism does not split yet\n"
            "  possible: without it");
}

} // namespace
