// Configs that are refused, and how the message says it: field, value, what would work; all problems at once.
#include "model/families/Family.h"
#include "test/frontend/Configs.h"
#include <filesystem>
#include <fstream>

using namespace mgc;
using namespace mgc::frontend;

namespace {

struct Case {
  const char *name;
  json config;
  std::string message; // the whole of it behind the name of the file
};

void check(const std::vector<Case> &cases) {
  for (const Case &entry : cases)
    EXPECT_EQ(errorOf(entry.config), "config.json: " + entry.message) << entry.name;
}

// The words behind the value of a field that is not known there.
std::string notUnderstood(const std::string &place) {
  return fmt::format(" is not understood for {}\n  it may change what the model computes; remove it if it does not",
                     place);
}

json llama(const json &edit) { return with(tinyDecoder("llama"), edit); }
json gpt2(const json &edit) { return with(tinyGpt2(), edit); }
json gptOss(const json &edit) { return with(tinyDecoder("gpt_oss"), edit); }
json deepseek(const json &edit) { return with(tinyDecoder("deepseek_v3"), edit); }

// All of them, of which the tests of each family say that they are read.
std::string supportedFamilies() {
  std::vector<std::string> names;
  for (const Family *family : families())
    names.emplace_back(family->modelType);
  return listOf(names);
}

TEST(Refusal, Families) {
  check({{"unknown", llama({{"model_type", "mamba"}}),
          "model_type = \"mamba\" is not supported\n  supported: " + supportedFamilies()},
         {"missing", without(tinyGpt2(), "model_type"),
          "model_type is missing, but required\n  supported: " + supportedFamilies()},
         {"not a text", llama({{"model_type", 3}}), "model_type = 3 is not a text"},
         {"other head", llama({{"architectures", {"LlamaForSequenceClassification"}}}),
          "architectures = [\"LlamaForSequenceClassification\"] is not supported\n"
          "  supported: [\"LlamaForCausalLM\"]"}});
}

TEST(Refusal, TowersAndWhatTheyAreBehind) {
  const auto llava = [](const char *part, const json &edit) {
    json config = tinyLlava();
    config[part].update(edit);
    return config;
  };
  json image = tinyLlava(), layer = tinyLlava();
  image["image_token_index"] = 128, layer["vision_feature_layer"] = -5;
  json several = tinyLlava();
  several["vision_feature_layer"] = {-2, -5};
  check({{"no object", with(tinyLlava(), {{"vision_config", 3}}), "vision_config = 3 is not an object"},
         {"another tower", llava("vision_config", {{"model_type", "pixtral"}}),
          "vision_config.model_type = \"pixtral\" is not supported\n"
          "  supported: clip_vision_model, siglip_vision_model"},
         {"an encoder behind it", llava("text_config", {{"model_type", "llava"}}),
          "text_config.model_type = \"llava\" has parts itself\n  expected a decoder"},
         {"patches of a part", llava("vision_config", {{"image_size", 13}}),
          "vision_config.image_size = 13 is no multiple of patch_size = 4\n"
          "  possible image_size: 4 and its multiples"},
         {"heads", llava("vision_config", {{"num_attention_heads", 5}}),
          "vision_config.num_attention_heads = 5 does not divide vision_config.hidden_size = 24\n"
          "  possible num_attention_heads: 1, 2, 3, 4, 6, 8, 12, 24"},
         {"an image token of none", image,
          "image_token_index = 128 is none of the text_config.vocab_size = 128 tokens\n"
          "  expected a token of the vocabulary, whose embedding is not read"},
         {"features behind no layer", layer,
          "vision_config.num_hidden_layers = 3 of which vision_feature_layer = -5 is none\n"
          "  possible vision_feature_layer: -3 to -1, 1 to 3"},
         {"features of several layers", several,
          "vision_feature_layer = [-2,-5] is not a whole number from -4096 to 4096"},
         {"a field of the tower", llava("vision_config", {{"num_labels", 2}, {"text_config", 1}}),
          "vision_config.text_config = 1 is not supported\n  supported: null"}});
}

// Refuses a part of a model that has fields of its own which the joined class lacks.
TEST(Refusal, PartsOfAWhole) {
  const auto llava = [](const json &edit) {
    json config = tinyLlava();
    config["text_config"].update(edit);
    return config;
  };
  check({{"a layout of a part", llava({{"mgc", {{"tp", 2}}}}),
          "text_config.mgc = {\"tp\":2} is of the whole model\n"
          "  expected it beside model_type of the whole, not of a part"},
         {"a factor of features", llava({{"model_type", "granite"}, {"embedding_multiplier", 2}}),
          "text_config.embedding_multiplier = 2 multiplies what stands in the place of tokens too\n"
          "  supported here: 1"},
         {"another name of a size", with(tinyBart(), {{"num_hidden_layers", 1}}),
          "num_hidden_layers = 1 and encoder_layers = 2 differ\n"
          "  one is another name of the other; expected the same in both"},
         {"growth that the class does not read",
          with(tinyDecoder("llama"), {{"rope_scaling",
                                       {{"rope_type", "yarn"},
                                        {"factor", 4},
                                        {"original_max_position_embeddings", 16},
                                        {"llama_4_scaling_beta", 5}}}}),
          "rope_scaling.llama_4_scaling_beta = 5 is not supported\n  supported: 0.0"}});
}

// The joined class has a head of its own, whatever the decoder's alone would have.
TEST(Refusal, HeadsOfADecoderAlone) {
  json config = tinyLlava();
  config["text_config"].erase("rms_norm_eps");
  config["text_config"].update({{"model_type", "cohere"}, {"logit_scale", 0.5}, {"tie_word_embeddings", true}});
  EXPECT_EQ(model(config).head, (Head{.tied = true}));
}

TEST(Refusal, FeaturesThatMustBeOff) {
  const std::string off = " is not supported\n  supported: ";
  check(
      {{"inverse layer scale", gpt2({{"scale_attn_by_inverse_layer_idx", true}}),
        "scale_attn_by_inverse_layer_idx = true" + off + "false"},
       {"cross attention", gpt2({{"add_cross_attention", true}}), "add_cross_attention = true" + off + "false"},
       {"pretraining_tp", llama({{"pretraining_tp", 2}}), "pretraining_tp = 2" + off + "1"},
       {"partial rotary", llama({{"partial_rotary_factor", 0.5}}), "partial_rotary_factor = 0.5" + off + "1.0"},
       {"mrope", with(tinyDecoder("qwen2"), {{"use_mrope", true}}), "use_mrope = true" + off + "false"},
       {"mistral biases", with(tinyDecoder("mistral"), {{"attention_bias", true}}),
        "attention_bias = true" + off + "false"},
       {"layers of an encoder dropped", with(tinyBart(), {{"encoder_layerdrop", 0.1}}),
        "encoder_layerdrop = 0.1" + off + "0.0"},
       {"norms before branches", with(tinyBart(), {{"normalize_before", true}}),
        "normalize_before = true" + off + "false"},
       {"an encoder of a decoder", llama({{"is_encoder_decoder", true}}), "is_encoder_decoder = true" + off + "false"},
       {"quantized", llama({{"quantization_config", {{"bits", 4}}}}),
        "quantization_config = {\"bits\":4} says that the weights are quantized; mgc trains from weights that are not\n"
        "  train from the repository of the unquantized model, or from what transformers saves of this one after "
        "model.dequantize();\n  to train from the start, without weights, remove the field"},
       {"another factor in the sigmoid", gptOss({{"swiglu_alpha", 2.0}}), "swiglu_alpha = 2.0" + off + "1.702"},
       {"another activation", gptOss({{"hidden_act", "relu"}}),
        "hidden_act = \"relu\"" + std::string(" is not supported\n") +
            "  expected silu: of gpt_oss x sigmoid(1.702 x), clamped"},
       {"windows without names", gptOss({{"layer_types", {1, 2}}}), "layer_types = [1,2] is not a list of texts"},
       {"another wrong key alone", gptOss({{"head_dim", 7}, {"router_aux_loss_coef", 0.5}}),
        "head_dim = 7 is odd; rotary positions turn pairs"},
       {"a neutral value that the class does not read", llama({{"rope_interleaved", true}}),
        "rope_interleaved = true" + off + "false"}});
}

TEST(Refusal, Experts) {
  const auto mixtral = [](const json &edit) { return with(tinyDecoder("mixtral"), edit); };
  check({{"auxiliary loss", mixtral({{"router_aux_loss_coef", -1}}),
          "router_aux_loss_coef = -1 is not a number from 0 to 1000000"},
         {"jitter", mixtral({{"router_jitter_noise", 0.1}}),
          "router_jitter_noise = 0.1 is not supported\n  supported: 0.0"},
         {"more than there are", mixtral({{"num_experts_per_tok", 9}}),
          "num_experts_per_tok = 9 is more than num_local_experts = 8\n"
          "  expected at most as many as there are experts"},
         {"dense layers that are none", with(tinyDecoder("qwen3_moe"), {{"mlp_only_layers", {4}}}),
          "mlp_only_layers = [4] is not a list of whole numbers from 0 to 3"},
         {"groups", with(tinyDecoder("glm4_moe"), {{"n_group", 3}}),
          "n_group = 3 does not divide n_routed_experts = 8\n  possible n_group: 1, 2, 4, 8"},
         {"kept groups", deepseek({{"topk_group", 5}}),
          "topk_group = 5 of n_group = 4 groups of 2 experts\n"
          "  expected 1 to 4: a token chooses num_experts_per_tok = 2 experts"},
         {"too few experts in them", deepseek({{"num_experts_per_tok", 5}}),
          "topk_group = 2 of n_group = 4 groups of 2 experts\n"
          "  expected 3 to 4: a token chooses num_experts_per_tok = 5 experts"},
         {"groups of one", deepseek({{"n_group", 8}}),
          "n_group = 8 leaves groups of 1, which are compared by their 2 best experts\n"
          "  expected groups of 2 or more"},
         {"another router", deepseek({{"scoring_func", "softmax"}}),
          "scoring_func = \"softmax\" is not supported\n  supported: \"sigmoid\""},
         {"renormalised", with(tinyDecoder("deepseek_v2"), {{"norm_topk_prob", true}}),
          "norm_topk_prob = true is not supported\n  supported: false"},
         {"method", with(tinyDecoder("deepseek_v2"), {{"topk_method", "noaux_tc"}}),
          "topk_method = \"noaux_tc\" is not supported\n  supported: greedy, group_limited_greedy"},
         {"grouped latents", deepseek({{"num_key_value_heads", 2}}),
          "num_key_value_heads = 2 is not num_attention_heads = 4\n"
          "  keys and values of latent attention are made for each head"},
         {"sizes of heads", deepseek({{"head_dim", 8}}),
          "head_dim = 8 contradicts qk_nope_head_dim = 12 and qk_rope_head_dim = 4\n  expected 4"},
         {"a part that is odd", with(tinyDecoder("glm4_moe"), {{"partial_rotary_factor", 0.2}}),
          "partial_rotary_factor = 0.2 of a head of 16 are 3 dimensions; expected an even number"},
         {"windows of unknown layers",
          with(tinyDecoder("qwen2_moe"), {{"use_sliding_window", true}, {"sliding_window", 4}}),
          "use_sliding_window = true but layer_types does not say which layers have the window\n"
          "  expected layer_types with sliding_attention or full_attention for each layer"}});
}

TEST(Refusal, NeutralValuesAreAccepted) {
  json config = gpt2({{"scale_attn_by_inverse_layer_idx", false},
                      {"add_cross_attention", false},
                      {"reorder_and_upcast_attn", true},
                      {"quantization_config", nullptr},
                      {"pruned_heads", json::object()},
                      {"summary_type", "cls_index"},
                      {"use_cache", true},
                      {"something_else", nullptr}});
  EXPECT_EQ(errorOf(config), "");
  EXPECT_EQ(errorOf(llama({{"pretraining_tp", 1}, {"partial_rotary_factor", 1.0}})), "");
}

TEST(Refusal, UnknownFields) {
  check({{"read by the class", gpt2({{"use_return_dict", 1}}), "use_return_dict = 1" + notUnderstood("gpt2")},
         {"of another version", with(tinyDecoder("qwen2"), {{"per_layer_config", {{"0", 1}}}}),
          "per_layer_config = {\"0\":1} is not supported\n  supported: null"},
         {"of a written model",
          {{"model_type", "mgc"}, {"mgc", json::object()}, {"auto_map", 1}},
          "auto_map = 1" + notUnderstood("mgc")},
         {"with what is ignored", llama({{"mlp_bias", "no"}, {"mlp_bia", true}}),
          "mlp_bias = \"no\" is not true or false\n"
          "config.json: ignored, as LlamaForCausalLM of transformers ignores them: mlp_bia"},
         {"a part of what get_text_config() returns", llama({{"text_config", json::object()}}),
          "text_config = {} is not supported\n  supported: null"},
         {"a part of heads that rotates", with(tinyDecoder("qwen3"), {{"partial_rotary_factor", 0.5}}),
          "partial_rotary_factor = 0.5 is not supported\n  supported: 1.0"}});
}

TEST(Refusal, Values) {
  check({{"text for number", llama({{"hidden_size", "32"}}),
          "hidden_size = \"32\" is not a whole number from 1 to 262144"},
         {"negative", llama({{"hidden_size", -32}}), "hidden_size = -32 is not a whole number from 1 to 262144"},
         {"zero", gpt2({{"n_layer", 0}}), "n_layer = 0 is not a whole number from 1 to 4096"},
         {"fraction", gpt2({{"n_embd", 32.5}}), "n_embd = 32.5 is not a whole number from 1 to 262144"},
         {"huge", llama({{"vocab_size", 18446744073709551615u}}),
          "vocab_size = 18446744073709551615 is not a whole number from 1 to 268435456"},
         {"not a number", llama({{"rms_norm_eps", "NaN"}}), "rms_norm_eps = \"NaN\" is not a number from 0 to 1"},
         {"null", llama({{"num_hidden_layers", nullptr}}),
          "num_hidden_layers is null, but required\n  expected a whole number from 1 to 4096"},
         {"text for flag", llama({{"mlp_bias", "no"}}), "mlp_bias = \"no\" is not true or false"},
         {"probability", gpt2({{"attn_pdrop", 1.0}}), "attn_pdrop = 1.0 is not a number from 0 to 0.999"},
         {"negative epsilon", llama({{"rms_norm_eps", -1e-6}}), "rms_norm_eps = -1e-06 is not a number from 0 to 1"},
         {"activation with parameters", gpt2({{"activation_function", "xielu"}}),
          "activation_function = \"xielu\" is not supported\n"
          "  supported: gelu, gelu_python, gelu_10, gelu_new, gelu_pytorch_tanh, gelu_python_tanh, gelu_accurate, "
          "gelu_fast, quick_gelu, hardswish, laplace, leaky_relu, linear, mish, relu, relu2, relu6, sigmoid, silu, "
          "swish, tanh"}});
}

TEST(Refusal, SizesThatDoNotFit) {
  check({{"gpt2 heads", gpt2({{"n_head", 5}}),
          "n_embd = 32 does not divide over n_head = 5\n  possible n_head: 1, 2, 4, 8, 16, 32"},
         {"llama heads", llama({{"num_attention_heads", 12}}),
          "hidden_size = 32 does not divide over num_attention_heads = 12\n"
          "  possible num_attention_heads: 1, 2, 4, 8, 16, 32"},
         {"groups", llama({{"num_key_value_heads", 3}}),
          "num_key_value_heads = 3 does not divide num_attention_heads = 4\n  possible num_key_value_heads: 1, 2, 4"},
         {"odd head", llama({{"head_dim", 7}}), "head_dim = 7 is odd; rotary positions turn pairs"},
         {"qwen without groups", without(tinyDecoder("qwen2"), "num_key_value_heads"),
          "num_key_value_heads = 32 does not divide num_attention_heads = 4\n"
          "  the file has no num_key_value_heads; this is the default of Qwen2ForCausalLM\n"
          "  possible num_key_value_heads: 1, 2, 4"}});
}

TEST(Refusal, Windows) {
  json qwen = tinyDecoder("qwen2");
  json sliding = {"full_attention", "full_attention", "full_attention", "sliding_attention"};
  check({{"no size", with(qwen, {{"use_sliding_window", true}, {"sliding_window", nullptr}}),
          "use_sliding_window = true but sliding_window gives no size"},
         {"contradiction", with(qwen, {{"layer_types", sliding}, {"sliding_window", 4}}),
          "layer_types = [\"full_attention\",\"full_attention\",\"full_attention\",\"sliding_attention\"] names "
          "sliding_attention, but no window is in use\n"
          "  set use_sliding_window to true and sliding_window to its size"},
         {"too few", with(qwen, {{"layer_types", {"full_attention"}}}),
          "layer_types = [\"full_attention\"] has 1 entries\n  expected one for each of num_hidden_layers = 4"},
         {"other kind", with(qwen, {{"layer_types", {"linear_attention"}}}),
          "layer_types = [\"linear_attention\"] is not supported\n  supported: full_attention, sliding_attention"},
         {"no interval", with(tinyDecoder("smollm3"), {{"pad_token_id", 0}, {"no_rope_layer_interval", 0}}),
          "no_rope_layer_interval = 0 is not a whole number from 1 to 4096"}});
}

TEST(Refusal, Rope) {
  auto scaling = [](const json &fields) { return llama({{"rope_scaling", fields}}); };
  EXPECT_EQ(errorOf(scaling({{"rope_type", "ntk"}, {"factor", 2.0}, {"beta_fast", 32}})),
            "config.json: rope_scaling.rope_type = \"ntk\" is not supported\n"
            "  supported: default, linear, dynamic, llama3, yarn, longrope, su");
  check(
      {{"field of another kind", scaling({{"type", "dynamic"}, {"factor", 2.0}, {"beta_fast", 32}}),
        "rope_scaling.beta_fast = 32" + notUnderstood("this rope type")},
       {"too few factors",
        scaling({{"type", "longrope"},
                 {"short_factor", {1, 1, 1}},
                 {"long_factor", {1, 2, 3, 4}},
                 {"original_max_position_embeddings", 32}}),
        "rope_scaling.short_factor = [1,1,1] has 3 factors\n"
        "  expected 4: one for each pair of dimensions that rotates"},
       {"factors that are no numbers",
        scaling({{"type", "longrope"},
                 {"short_factor", {1, 1, 1, "x"}},
                 {"long_factor", {1, 2, 3, 4}},
                 {"original_max_position_embeddings", 32}}),
        "rope_scaling.short_factor = [1,1,1,\"x\"] is not a list of numbers from 1e-06 to 1000000000000000\n"
        "config.json: rope_scaling.short_factor = [1,1,1,\"x\"] has 0 factors\n"
        "  expected 4: one for each pair of dimensions that rotates"},
       {"two original contexts",
        llama({{"original_max_position_embeddings", 16},
               {"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 32}}}}),
        "rope_scaling.original_max_position_embeddings = 32 and the one outside, 16, differ\n"
        "  the class takes the one outside; expected the same in both"},
       {"no factor", scaling({{"type", "linear"}}),
        "rope_scaling.factor is missing, but required\n  expected a number from 1 to 1000000000000000"},
       {"unknown field", scaling({{"type", "linear"}, {"factor", 2}, {"attention_factor", 1.5}}),
        "rope_scaling.attention_factor = 1.5" + notUnderstood("this rope type")},
       {"two names", scaling({{"type", "linear"}, {"rope_type", "default"}, {"factor", 2}}),
        "rope_scaling.type = \"linear\" and rope_type differ\n"
        "  keep one of them\n"
        "config.json: rope_scaling.factor = 2" +
            notUnderstood("this rope type")},
       {"two spellings",
        llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}, {"rope_parameters", {{"rope_type", "default"}}}}),
        "rope_scaling = {\"factor\":2,\"type\":\"linear\"} and rope_parameters are two spellings of one thing\n"
        "  keep one of them"},
       {"two thetas", llama({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}),
        "rope_theta = 10000.0 and rope_parameters.rope_theta = 500000 differ\n  keep one of them"},
       {"bands",
        scaling({{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 4},
                 {"high_freq_factor", 4},
                 {"original_max_position_embeddings", 32}}),
        "rope_scaling.high_freq_factor = 4 is not above low_freq_factor = 4"},
       {"not an object", scaling("linear"), "rope_scaling = \"linear\" is not an object"}});
}

TEST(Refusal, AllProblemsAtOnce) {
  std::string message =
      errorOf(llama({{"hidden_size", "x"}, {"hidden_act", "prelu"}, {"mlp_bias", 1}, {"is_causal", 1}}));
  for (const char *part : {"hidden_size", "hidden_act", "mlp_bias", "is_causal"})
    EXPECT_NE(message.find(fmt::format("config.json: {} = ", part)), std::string::npos) << part;
}

TEST(Refusal, Json) {
  auto error = [](const std::string &text) {
    Result<ModelFile> file = parseModel(text, "config.json");
    return file.isOk() ? "" : file.status().message();
  };
  EXPECT_EQ(error("{\n  \"a\": }").substr(0, 60), "config.json: is not JSON: parse error at line 2, column 8: s");
  EXPECT_NE(error("").find("is not JSON"), std::string::npos);
  EXPECT_NE(error("{\"a\": NaN1}").find("is not JSON"), std::string::npos);
  EXPECT_EQ(error("[1]"), "config.json: holds an array, not an object of fields");
  EXPECT_EQ(error("3"), "config.json: holds a number, not an object of fields");
  EXPECT_EQ(error("{\"a\": 1, \"a\": 2}"),
            "config.json: is not usable JSON: the name \"a\" is given twice in one object");
  EXPECT_EQ(error(std::string(100000, '[')), "config.json: is not usable JSON: nested deeper than 64 levels");
  std::string broken = "{\"model_type\": \"\xff\"}";
  EXPECT_NE(error(broken).find("is not JSON"), std::string::npos);
}

TEST(Refusal, Files) {
  EXPECT_EQ(loadModel("/nowhere/config.json").status().message(), "/nowhere/config.json: no such file");
  std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "mgc_frontend_refusal";
  std::filesystem::create_directories(folder / "config.json");
  std::string file = (folder / "config.json").string();
  EXPECT_EQ(loadModel(file).status().message(), file + "/config.json: no such file");
  EXPECT_EQ(loadModel(folder.string()).status().message(), file + ": is not a file");
  std::filesystem::remove_all(folder);
}

} // namespace
