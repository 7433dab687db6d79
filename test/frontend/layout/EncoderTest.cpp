// Layouts of models with an encoder: two lengths, layers of two stacks, and what such a model cannot have.
#include "test/frontend/layout/LayoutCases.h"

using namespace mgc::frontend;

namespace {

TEST(LayoutEncoder, HasALengthOfItsOwn) {
  EXPECT_EQ(layout(tinyBart(), {.seq = 16}).encoderLength, 16);
  const Layout both = layout(tinyBart(), {.seq = 16, .encoderLength = 24});
  EXPECT_EQ(both.sequenceLength, 16);
  EXPECT_EQ(both.encoderLength, 24);
  EXPECT_EQ(layout(tinyDecoder("llama"), {.seq = 16}).encoderLength, 0);
  EXPECT_EQ(errorOf(tinyDecoder("llama"), {.seq = 16, .encoderLength = 24}),
            "config.json: --encoder-seq-length 24: the model has no encoder\n"
            "  possible: --seq 24, which is of its one sequence");
}

TEST(LayoutEncoder, TheLengthFitsPositionsAndRanks) {
  EXPECT_EQ(errorOf(tinyBart(), {.seq = 16, .encoderLength = 65}),
            "config.json: --encoder-seq-length 65 exceeds max_position_embeddings = 64: there are no learned "
            "positions beyond\n  possible --encoder-seq-length: 1 to 64");
  EXPECT_EQ(errorOf(tinyBart(), {.tp = 4, .seq = 16, .encoderLength = 18}),
            "config.json: --encoder-seq-length 18 with --sp true does not divide over tp = 4\n"
            "  possible tp: 1, 2, 3, 6, 9, 18");
  EXPECT_EQ(errorOf(with(tinyBart(), {{"encoder_attention_heads", 2}}), {.tp = 4, .seq = 16}),
            "config.json: encoder_attention_heads = 2 does not divide over tp = 4\n  possible tp: 1, 2");
}

TEST(LayoutEncoder, StagesShareOutTheLayersOfBoth) {
  EXPECT_EQ(layout(tinyBart(), {.pp = 5, .seq = 16}).pp, 5); // 2 + 3 layers
  EXPECT_EQ(errorOf(tinyBart(), {.pp = 6, .seq = 16}),
            "config.json: encoder_layers + decoder_layers = 5 is fewer than the pp * vpp = 6 * 1 = 6 chunks\n"
            "  possible --pp with --vpp 1: 1 to 5");
}

TEST(LayoutEncoder, WhatItCannotHave) {
  EXPECT_EQ(errorOf(tinyBart(), {.seq = 16, .cp = 2}),
            "config.json: cp = 2: bart has an encoder, whose sequence context parallelism does not split yet\n"
            "  possible: without it");
  EXPECT_EQ(errorOf(tinyBart(), {.seq = 16, .resetPositionIds = true}),
            "config.json: --reset-position-ids: bart has an encoder, whose samples are no packed documents\n"
            "  possible: without it");
  EXPECT_EQ(suggestion(tinyBart(), {.seq = 16, .cp = 2, .encoderLength = 65}).find("--cp 2"), std::string::npos);
}

} // namespace
