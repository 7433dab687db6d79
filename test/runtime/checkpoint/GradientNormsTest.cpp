// Tests the layer of a tensor. test/e2e/norms.py compares the norms with the whole norm, in many layouts.
#include "runtime/checkpoint/GradientNorms.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

TEST(GradientNorms, layersAreWhatNamesBeginWith) {
  EXPECT_EQ(layerOf("model.layers.13.self_attn.q_proj.weight"), "model.layers.13");
  EXPECT_EQ(layerOf("model.layers.3.mlp.experts.7.up_proj.weight"), "model.layers.3");
  EXPECT_EQ(layerOf("h.0.ln_1.bias"), "h.0");
  EXPECT_EQ(layerOf("model.embed_tokens.weight"), "model.embed_tokens");
  EXPECT_EQ(layerOf("encoder.block.2.layer.0.SelfAttention.q.weight"), "encoder.block.2");
  EXPECT_EQ(layerOf("model.conv1d.weight"), "model.conv1d") << "a word that has a number is none";
  EXPECT_EQ(layerOf("w"), "w");
}

} // namespace
} // namespace mgc::test
