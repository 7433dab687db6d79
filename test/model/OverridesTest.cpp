// "mgc": {"model": {..}}: fields of the vocabulary over what a family says, or without one.
#include "model/file/ReadModelFile.h"
#include "model/file/SameModel.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

using namespace mgc;
using namespace mgc::frontend;

namespace {

json llama(const json &overrides) { return with(tinyDecoder("llama"), {{"mgc", {{"model", overrides}}}}); }

std::string tensorOf(const ModelDescription &model, std::string_view role) {
  const plan::Parameter *parameter = findParameter(model.kinds.at(0).parameters, role);
  return parameter ? parameter->tensor : "none";
}

const json kRms = {{"kind", "rms"}, {"epsilon", 1e-6}};

// Llama's tiny model, written without its family.
json written() {
  const json layer = {{"attention_branch", {{"before", kRms}}},
                      {"mlp_branch", {{"before", kRms}}},
                      {"attention",
                       {{"heads", 4},
                        {"groups", 2},
                        {"head_dim", 8},
                        {"scale", 1 / std::sqrt(8.0)},
                        {"rope", {{"theta", 10000.0}, {"dim", 8}}}}},
                      {"mlp", {{"activation", "silu"}, {"gated", true}, {"ffn", 80}}}};
  return {{"model_type", "mgc"},
          {"mgc",
           {{"tp", 2},
            {"model",
             {{"vocabulary", 128},
              {"hidden", 32},
              {"positions", 64},
              {"final_norm", kRms},
              {"layer_count", 4},
              {"layer", layer}}}}}};
}

TEST(Overrides, ofAllLayers) {
  const ModelDescription model_ =
      model(llama({{"layer", {{"attention", {{"qk_norm", {{"norm", kRms}}}, {"softcap", 50}}}}}}));
  EXPECT_EQ(model_.kinds.size(), 1u);
  EXPECT_EQ(model_.blockOf(3).attention.softcap, 50);
  EXPECT_EQ(model_.blockOf(3).attention.qkNorm->norm, rmsNorm(1e-6));
  EXPECT_EQ(model_.blockOf(3).attention.heads, 4) << "what is not written stays";
  EXPECT_EQ(tensorOf(model_, "attn.q_norm.weight"), "model.layers.{}.self_attn.q_norm.weight");
}

TEST(Overrides, ofSomeLayers) {
  const ModelDescription model_ = model(llama({{"layers",
                                                {{{"every", 2}, {"from", 1}, {"attention", {{"rope", nullptr}}}},
                                                 {{"to", 0}, {"attention", {{"window", 4}}}}}}}));
  EXPECT_EQ(model_.layers, std::vector<int64_t>({0, 1, 2, 1}));
  EXPECT_FALSE(model_.blockOf(1).attention.rope);
  EXPECT_EQ(model_.blockOf(0).attention.window, 4);
  EXPECT_EQ(model_.blockOf(2).attention.window, 0);
}

TEST(Overrides, ofEmbeddingAndHead) {
  const ModelDescription model_ = model(
      llama({{"embedding", {{"scale", 2}, {"learned_positions", true}}}, {"head", {{"softcap", 30}, {"tied", true}}}}));
  EXPECT_EQ(model_.embedding.scale, 2);
  EXPECT_TRUE(findParameter(model_.parameters, "embed.positions"));
  EXPECT_FALSE(findParameter(model_.parameters, "head.weight"));
}

TEST(Overrides, tensorsHaveTheNamesThatAreGiven) {
  const ModelDescription model_ = model(llama({{"layer", {{"attention", {{"gated", true}}}}},
                                               {"tensors", {{"attn.gate.weight", "model.layers.{}.attn.g.weight"}}}}));
  EXPECT_EQ(tensorOf(model_, "attn.gate.weight"), "model.layers.{}.attn.g.weight");
  EXPECT_EQ(tensorOf(model_, "attn.q.weight"), "model.layers.{}.self_attn.q_proj.weight");
}

// The product behind attention has the size of a head's values, whatever family has named it.
TEST(Overrides, latentsComposeWithAnyFamily) {
  const json latent = {{"groups", 4}, {"latent", {{"key_rank", 8}, {"rotary_dim", 4}, {"value_dim", 6}}}};
  const ModelDescription edited = model(llama({{"layer", {{"attention", latent}}}}));
  const plan::Parameter &o = *findParameter(edited.kinds[0].parameters, "attn.o.weight");
  EXPECT_EQ(o.fileShape, (std::vector<int64_t>{32, 24}));
  const ModelDescription back = model(
      with(tinyDecoder("deepseek_v2"), {{"mgc", {{"model", {{"layer", {{"attention", {{"latent", nullptr}}}}}}}}}}));
  EXPECT_TRUE(findParameter(back.kinds[0].parameters, "attn.k.weight"));
}

// Roles that no family has, and those of an encoder's layers, have names; other names may be given.
TEST(Overrides, everyRoleHasATensor) {
  const ModelDescription narrow =
      model(llama({{"embedding", {{"width", 8}}}, {"tensors", {{"embed.project.weight", "p.weight"}}}}));
  EXPECT_EQ(findParameter(narrow.parameters, "embed.project.weight")->tensor, "p.weight");
  EXPECT_EQ(findParameter(narrow.parameters, "embed.project.bias")->tensor, "model.embed_project.bias");
  const auto bart = [](const json &tensors) {
    const json edit = {{"encoder", {{"layer", {{"mlp", {{"gated", true}}}}}}}, {"tensors", tensors}};
    return model(with(tinyBart(), {{"mgc", {{"model", edit}}}}));
  };
  const char *role = "encoder.mlp.gate.weight";
  EXPECT_EQ(findParameter(bart(json::object()).encoderLayer, role)->tensor,
            "encoder.model.layers.{}.mlp.gate_proj.weight");
  EXPECT_EQ(findParameter(bart({{role, "e.{}.gate"}}).encoderLayer, role)->tensor, "e.{}.gate");
}

TEST(Overrides, aModelWithoutAFamilyIsAllWritten) {
  const ModelDescription alone = model(written()), family = model(tinyDecoder("llama"));
  EXPECT_EQ(alone.blockOf(3), family.blockOf(3));
  EXPECT_EQ(differencesBetween(alone, family),
            std::vector<std::string>({"model_type: mgc in the config.json, llama in the plan"}));
  EXPECT_EQ(describe(alone).substr(3), describe(family).substr(5));
}

TEST(Overrides, savedWeightsSayTheirFamily) {
  const json own = {{"model", {{"head", {{"softcap", 5}}}}}};
  const auto at = [&](const json &type, const json &more) {
    const json config = with(tinyDecoder("llama"), {{"model_type", type}, {"mgc", with(own, more)}});
    const Status read = readModelText(config.dump(), "config.json").status();
    EXPECT_EQ(read.message(), errorOf(config)) << "by mgrun, which reads no flags, and by mgc";
    return read.message();
  };
  const std::string expected =
      "expected an object {\"model_type\": .., ..}: the family, as the weights were saved with it";
  EXPECT_EQ(at("mgc", {{"base", {{"model_type", "llama"}}}}), "");
  EXPECT_EQ(at("mgc", json::object()), "config.json: mgc.base is missing, " + expected);
  for (const json &base :
       {json(5), json(nullptr), json("qwen2"), json::array(), json::object(), json({{"model_type", "mgc"}})})
    EXPECT_EQ(at("mgc", {{"base", base}}), "config.json: mgc.base: found " + base.dump() + ", " + expected);
  EXPECT_EQ(at("llama", {{"base", {{"model_type", "llama"}}}}),
            "config.json: mgc.base is of model_type mgc, found \"llama\"; expected model_type mgc, as the weights were "
            "saved, or no mgc.base");
}

TEST(Overrides, whatIsWrongIsRefusedByItsPath) {
  const auto at = [](const json &overrides) { return errorOf(llama(overrides)); };
  const std::string page = "\n  docs/model-vocabulary.md has its fields";
  EXPECT_EQ(at({{"layer", {{"attention", {{"sofcap", 50}}}}}}),
            "config.json: mgc.model.layer.attention.sofcap = 50 is not understood for this part of a description" +
                page + "\n  did you mean softcap?");
  EXPECT_EQ(at({{"layer", {{"mlp", {{"activation", "prelu"}}}}}}).substr(0, 67),
            "config.json: mgc.model.layer.mlp.activation = \"prelu\" is not suppor");
  EXPECT_EQ(at({{"layer", {{"attention", {{"groups", 3}}}}}}),
            "config.json: layer 0: attention.groups = 3 does not divide heads = 4");
  EXPECT_EQ(at({{"layer", {{"attention", {{"rope", {{"dim", 10}}}}}}}}),
            "config.json: layer 0: rope.dim = 10 of a head of 8; expected an even number up to that");
  EXPECT_EQ(at({{"layer", {{"attention", {{"heads", nullptr}}}}}}),
            "config.json: mgc.model.layer.attention.heads = null is no value of this field\n"
            "  leave it out for what the family says");
  EXPECT_EQ(at({{"layers", {{{"from", 4}, {"mlp", {{"ffn", 8}}}}}}}),
            "config.json: mgc.model.layers[0].from = 4 is not a whole number from 0 to 3");
  EXPECT_EQ(at({{"tensors", {{"attn.x.weight", "x"}}}}),
            "config.json: mgc.model.tensors: there is no role attn.x.weight\n"
            "  expected a role of docs/model-vocabulary.md, such as mlp.up.weight");
}

// Fields derived from an edited field are recomputed.
TEST(Overrides, derivedFieldsAreThoseOfTheEdit) {
  const AttentionDescription attention =
      model(llama({{"layer", {{"attention", {{"head_dim", 16}}}}}})).blockOf(0).attention;
  EXPECT_DOUBLE_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.rope->dim, 16);
}

TEST(Overrides, whatWouldTrainAnotherModelInSilenceIsRefused) {
  const auto of = [](const json &attention) { return errorOf(llama({{"layer", {{"attention", attention}}}})); };
  const auto contains = [](const std::string &error, const char *part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  contains(of({{"ropee", nullptr}}), "ropee = null is not understood");
  contains(of({{"rope", {{"scaling", {{"kind", "yarn"}, {"factor", 4}}}}}}), "original_positions = 0 of yarn");
  contains(of({{"rope", {{"scaling", {{"kind", "llama3"}, {"original_positions", 8}, {"low_frequency_factor", 4}}}}}}),
           "low_frequency_factor = 4 is not below high_frequency_factor = 4");
  contains(of({{"qk_norm", {{"span", "all_heads"}, {"norm", {{"kind", "layer"}}}}}}), "all_heads and kind layer");
  contains(of({{"qk_norm", {{"span", "all_heads"}, {"norm", {{"kind", "rms"}, {"offset", 1}}}}}}), "with an offset");
  const json latent = {{"key_rank", 8}, {"rotary_dim", 4}, {"value_dim", 6}};
  contains(of({{"groups", 4}, {"latent", latent}, {"rope", {{"dim", 2}}}}),
           "layer 0: attention.rope.dim = 2 with latent.rotary_dim = 4; expected the same, or 0");
  contains(of({{"groups", 4}, {"latent", with(latent, {{"rotary_dim", 3}})}}),
           "attention.latent.rotary_dim = 3 of head_dim = 8; expected an even number below it");
  contains(of({{"groups", 4}, {"latent", with(latent, {{"norm", {{"kind", "rms"}, {"bias", true}}}})}}),
           "layer 0: attention.latent.norm.bias: true with kind rms; expected false, or kind layer");
  contains(of({{"softcap", 1e-300}}), "attention.softcap = 1e-300");
  contains(of({{"causal", false}}), "attention.causal: false with the objective causal");
  const auto named = [](const char *role, const char *tensor) {
    return errorOf(llama({{"tensors", {{role, tensor}}}}));
  };
  contains(named("attn.q.weight", "q.weight"), "with the holes of model.layers.{}.self_attn.q_proj.weight");
  contains(named("attn.v.weight", "model.layers.{}.self_attn.k_proj.weight"), "is the tensor of attn.k.weight too");
  contains(errorOf(llama({{"layers", {{{"from", 3}, {"to", 1}, {"parallel", true}}}}})), "from = 3 is behind to = 1");
}

} // namespace
