// Every family: what its fields mean, both spellings, checkpoint names and shapes.
#include "model/Parameters.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

#include <cmath>

using namespace mgc;
using namespace mgc::frontend;

namespace {

// "name shape, ..": of the parameters in plan order.
std::string tensorsOf(const ModelDescription &model, int64_t onlyLayer = 0) {
  std::vector<std::string> lines;
  for (const plan::Parameter &parameter : allParameters(model)) {
    size_t at = parameter.tensor.find_first_of("0123456789");
    if (at == std::string::npos || parameter.tensor.substr(at, 1) == std::to_string(onlyLayer))
      lines.push_back(fmt::format("{} {}", parameter.name, fmt::join(parameter.shapeOfTensor(), "x")));
  }
  return fmt::format("{}", fmt::join(lines, ", "));
}

const plan::Parameter &inLayer(const ModelDescription &model, std::string_view role) {
  const plan::Parameter *parameter = findParameter(model.kinds.at(0).parameters, role);
  EXPECT_NE(parameter, nullptr) << role;
  return *parameter;
}

std::string dimsOf(const plan::Parameter &parameter) {
  std::string text;
  for (const plan::ParameterDim &dim : parameter.dims)
    text += fmt::format("{}{} ", dim.name, dim.size);
  return text;
}

TEST(Gpt2, FieldsAreRead) {
  ModelDescription gpt2 = model(with(tinyGpt2(), {{"embd_pdrop", 0.1}, {"attn_pdrop", 0.2}, {"resid_pdrop", 0.3}}));
  EXPECT_EQ(gpt2.vocabulary, 100);
  EXPECT_EQ(gpt2.layers, std::vector<int64_t>({0, 0, 0, 0}));
  EXPECT_TRUE(gpt2.embedding.learnedPositions && gpt2.head.tied);
  EXPECT_EQ(gpt2.embedding.dropout, 0.1);
  const BlockDescription &block = gpt2.blockOf(3);
  EXPECT_EQ(block.attention.dropout, 0.2);
  EXPECT_EQ(block.mlpBranch.dropout, 0.3);
  EXPECT_EQ(block.attention.headDim, 8);
  EXPECT_DOUBLE_EQ(block.attention.scale, 1 / std::sqrt(8.0));
  EXPECT_EQ(block.mlp.ffn, 128);
  EXPECT_FALSE(block.mlp.gated);
  EXPECT_FALSE(block.attention.rope.has_value());
}

TEST(Gpt2, DropoutDefaultsToWhatTransformersUses) {
  ModelDescription gpt2 = model(without(tinyGpt2(), "attn_pdrop"));
  EXPECT_EQ(gpt2.blockOf(0).attention.dropout, 0.1);
}

TEST(Gpt2, ScaleAndInnerSize) {
  ModelDescription gpt2 = model(with(tinyGpt2(), {{"scale_attn_weights", false}, {"n_inner", 48}}));
  EXPECT_EQ(gpt2.blockOf(0).attention.scale, 1);
  EXPECT_EQ(gpt2.blockOf(0).mlp.ffn, 48);
}

TEST(Gpt2, Activations) {
  const std::pair<Activation, std::vector<const char *>> rows[] = {
      {Activation::geluTanh, {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"}},
      {Activation::geluErf, {"gelu", "gelu_python"}},
      {Activation::geluClipped, {"gelu_10"}},
      {Activation::geluQuick, {"quick_gelu"}},
      {Activation::hardSwish, {"hardswish"}},
      {Activation::laplace, {"laplace"}},
      {Activation::leakyRelu, {"leaky_relu"}},
      {Activation::linear, {"linear"}},
      {Activation::mish, {"mish"}},
      {Activation::relu, {"relu"}},
      {Activation::relu2, {"relu2"}},
      {Activation::relu6, {"relu6"}},
      {Activation::sigmoid, {"sigmoid"}},
      {Activation::silu, {"silu", "swish"}},
      {Activation::tanh, {"tanh"}}};
  for (const auto &[activation, names] : rows)
    for (const char *name : names)
      EXPECT_EQ(model(with(tinyGpt2(), {{"activation_function", name}})).blockOf(0).mlp.activation, activation) << name;
  for (const char *name : {"prelu", "xielu"}) // these have parameters
    EXPECT_TRUE(errorOf(with(tinyGpt2(), {{"activation_function", name}}))
                    .starts_with(fmt::format("config.json: activation_function = \"{}\"", name)));
}

TEST(Gpt2, TensorsAreThoseOfTheCheckpoint) {
  EXPECT_EQ(tensorsOf(model(tinyGpt2())),
            "transformer.wte.weight 100x32, transformer.wpe.weight 64x32, transformer.h.0.ln_1.weight 32, "
            "transformer.h.0.ln_1.bias 32, transformer.h.0.attn.c_attn.weight[q] 32x96, "
            "transformer.h.0.attn.c_attn.bias[q] 96, transformer.h.0.attn.c_attn.weight[k] 32x96, "
            "transformer.h.0.attn.c_attn.bias[k] 96, transformer.h.0.attn.c_attn.weight[v] 32x96, "
            "transformer.h.0.attn.c_attn.bias[v] 96, transformer.h.0.attn.c_proj.weight 32x32, "
            "transformer.h.0.attn.c_proj.bias 32, transformer.h.0.ln_2.weight 32, transformer.h.0.ln_2.bias 32, "
            "transformer.h.0.mlp.c_fc.weight 32x128, transformer.h.0.mlp.c_fc.bias 128, "
            "transformer.h.0.mlp.c_proj.weight 128x32, transformer.h.0.mlp.c_proj.bias 32, transformer.ln_f.weight 32, "
            "transformer.ln_f.bias 32");
}

TEST(Gpt2, QueryKeyValueAreViewsOfOneTensor) {
  ModelDescription gpt2 = model(tinyGpt2());
  const plan::Parameter &q = inLayer(gpt2, "attn.q.weight"), &v = inLayer(gpt2, "attn.v.weight");
  EXPECT_EQ(dimsOf(q), "h32 g4 r1 d8 ");
  EXPECT_EQ(q.grouping, std::vector<int64_t>({1, 3}));
  EXPECT_EQ(q.offset, std::vector<int64_t>({0, 0}));
  EXPECT_EQ(dimsOf(v), "h32 g4 d8 ");
  EXPECT_EQ(v.grouping, std::vector<int64_t>({1, 2}));
  EXPECT_EQ(v.offset, std::vector<int64_t>({0, 64}));
  EXPECT_EQ(inLayer(gpt2, "attn.k.bias").offset, std::vector<int64_t>({32}));
}

TEST(Gpt2, InitialValues) {
  ModelDescription gpt2 = model(with(tinyGpt2(), {{"initializer_range", 0.04}}));
  EXPECT_EQ(inLayer(gpt2, "attn_norm.weight").init, plan::InitKind::ones);
  EXPECT_EQ(inLayer(gpt2, "attn_norm.bias").init, plan::InitKind::zeros);
  EXPECT_EQ(inLayer(gpt2, "attn.q.bias").init, plan::InitKind::zeros);
  EXPECT_EQ(inLayer(gpt2, "mlp.up.weight").init, plan::InitKind::normal);
  EXPECT_DOUBLE_EQ(inLayer(gpt2, "mlp.up.weight").initStd, 0.04);
  EXPECT_DOUBLE_EQ(inLayer(gpt2, "mlp.down.weight").initStd,
                   0.04 / std::sqrt(8.0)); // 4 layers, 2 branches each
  EXPECT_DOUBLE_EQ(inLayer(gpt2, "attn.o.weight").initStd, 0.04 / std::sqrt(8.0));
  json scaled = tinyDecoder("mixtral");
  scaled["mgc"]["model"]["scaled_residual_init"] = true;
  const ModelDescription mixtral = model(scaled);
  const double end = 0.02 / std::sqrt(2.0 * double(mixtral.layerCount()));
  EXPECT_DOUBLE_EQ(inLayer(mixtral, "attn.o.weight").initStd, end);
  EXPECT_DOUBLE_EQ(inLayer(mixtral, "experts.down.weight").initStd, end);
  EXPECT_DOUBLE_EQ(inLayer(mixtral, "experts.up.weight").initStd, 0.02);
  EXPECT_DOUBLE_EQ(inLayer(model(tinyDecoder("mixtral")), "attn.o.weight").initStd, 0.02);
}

TEST(Gpt2, OwnHeadWhenNotTied) {
  ModelDescription gpt2 = model(with(tinyGpt2(), {{"tie_word_embeddings", false}}));
  const plan::Parameter *head = findParameter(gpt2.parameters, "head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->tensor, "lm_head.weight");
  EXPECT_EQ(dimsOf(*head), "v100 h32 ");
  EXPECT_EQ(head->dims[0].valid, 100);
}

TEST(Gpt2, OtherNamesOfTensors) {
  using Names = std::vector<std::string>;
  ModelDescription tied = model(tinyGpt2()), own = model(with(tinyGpt2(), {{"tie_word_embeddings", false}}));
  EXPECT_EQ(findParameter(tied.parameters, "embed.tokens")->aliases, Names({"wte.weight", "lm_head.weight"}));
  EXPECT_EQ(findParameter(own.parameters, "embed.tokens")->aliases, Names({"wte.weight"}));
  EXPECT_EQ(findParameter(own.parameters, "head.weight")->aliases, Names());
  EXPECT_EQ(atLayer(inLayer(tied, "mlp.up.bias"), 3).aliases, Names({"h.3.mlp.c_fc.bias"}));
  EXPECT_EQ(tied.ignoredTensors, Names({"transformer.h.{}.attn.bias", "h.{}.attn.bias",
                                        "transformer.h.{}.attn.masked_bias", "h.{}.attn.masked_bias"}));
}

TEST(Llama, OtherNamesOfTensors) {
  using Names = std::vector<std::string>;
  ModelDescription llama = model(tinyDecoder("llama"));
  EXPECT_EQ(findParameter(llama.parameters, "final_norm.weight")->aliases, Names({"norm.weight"}));
  EXPECT_EQ(llama.ignoredTensors,
            Names({"model.layers.{}.self_attn.rotary_emb.inv_freq", "layers.{}.self_attn.rotary_emb.inv_freq"}));
}

TEST(Llama, TensorsAreThoseOfTheCheckpoint) {
  EXPECT_EQ(tensorsOf(model(tinyDecoder("llama")), 2),
            "model.embed_tokens.weight 128x32, model.layers.2.input_layernorm.weight 32, "
            "model.layers.2.self_attn.q_proj.weight 32x32, model.layers.2.self_attn.k_proj.weight 16x32, "
            "model.layers.2.self_attn.v_proj.weight 16x32, model.layers.2.self_attn.o_proj.weight 32x32, "
            "model.layers.2.post_attention_layernorm.weight 32, model.layers.2.mlp.gate_proj.weight 80x32, "
            "model.layers.2.mlp.up_proj.weight 80x32, model.layers.2.mlp.down_proj.weight 32x80, "
            "model.norm.weight 32, lm_head.weight 128x32");
}

TEST(Llama, Biases) {
  ModelDescription plain = model(tinyDecoder("llama"));
  EXPECT_EQ(findParameter(plain.kinds[0].parameters, "attn.o.bias"), nullptr);
  ModelDescription biased = model(with(tinyDecoder("llama"), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_EQ(biased.kinds[0].parameters.size(), plain.kinds[0].parameters.size() + 7);
  for (const char *role :
       {"attn.q.bias", "attn.k.bias", "attn.v.bias", "attn.o.bias", "mlp.gate.bias", "mlp.up.bias", "mlp.down.bias"})
    EXPECT_NE(findParameter(biased.kinds[0].parameters, role), nullptr) << role;
}

TEST(Llama, HeadSizeAndGroupsAreDerivedOrGiven) {
  EXPECT_EQ(model(tinyDecoder("llama")).blockOf(0).attention.headDim, 8);
  EXPECT_EQ(model(with(tinyDecoder("llama"), {{"head_dim", nullptr}})).blockOf(0).attention.headDim, 8);
  EXPECT_EQ(model(with(tinyDecoder("llama"), {{"head_dim", 12}})).blockOf(0).attention.headDim, 12);
  EXPECT_EQ(model(without(tinyDecoder("llama"), "num_key_value_heads")).blockOf(0).attention.groups, 4);
}

TEST(Llama, TiedHeadHasNoParameter) {
  ModelDescription llama = model(with(tinyDecoder("llama"), {{"tie_word_embeddings", true}}));
  EXPECT_EQ(findParameter(llama.parameters, "head.weight"), nullptr);
}

TEST(Llama, PadTokenIsNoted) {
  const auto padding = [](const json &id) {
    return model(with(tinyDecoder("llama"), {{"pad_token_id", id}})).paddingToken;
  };
  EXPECT_EQ(model(tinyDecoder("llama")).paddingToken, std::nullopt);
  EXPECT_EQ(padding(nullptr), std::nullopt);
  EXPECT_EQ(padding(0), 0);
  EXPECT_EQ(padding(-1), model(tinyDecoder("llama")).vocabulary - 1); // as torch.nn.Embedding counts
}

TEST(Granite, FactorsOfEmbeddingsBranchesScoresAndLogits) {
  const ModelDescription granite = model(with(tinyDecoder("granite"), {{"embedding_multiplier", 3.0},
                                                                       {"logits_scaling", 2.0},
                                                                       {"residual_multiplier", 0.4},
                                                                       {"attention_multiplier", 0.25}}));
  EXPECT_DOUBLE_EQ(granite.embedding.scale, 3);
  EXPECT_DOUBLE_EQ(granite.head.scale, 1 / 2.0);
  EXPECT_DOUBLE_EQ(granite.blockOf(0).residualScale, 0.4);
  EXPECT_DOUBLE_EQ(granite.blockOf(0).attention.scale, 0.25);
}

TEST(Phi3, TheGateIsTheFirstHalfOfItsMatrix) {
  const ModelDescription phi = model(with(tinyDecoder("phi3"), {{"pad_token_id", 0}}));
  const plan::Parameter &gate = inLayer(phi, "mlp.gate.weight"), &up = inLayer(phi, "mlp.up.weight");
  EXPECT_EQ(gate.tensor, up.tensor);
  EXPECT_EQ(gate.offset, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(up.offset, (std::vector<int64_t>{up.dims[0].valid, 0}));
}

TEST(Mistral, Window) {
  EXPECT_EQ(model(tinyDecoder("mistral")).blockOf(0).attention.window, 0);
  EXPECT_EQ(model(with(tinyDecoder("mistral"), {{"sliding_window", 16}})).blockOf(3).attention.window, 16);
}

TEST(Qwen2, BiasesOnQueryKeyValueOnly) {
  ModelDescription qwen = model(tinyDecoder("qwen2"));
  EXPECT_NE(findParameter(qwen.kinds[0].parameters, "attn.q.bias"), nullptr);
  EXPECT_EQ(findParameter(qwen.kinds[0].parameters, "attn.o.bias"), nullptr);
  EXPECT_EQ(findParameter(qwen.kinds[0].parameters, "mlp.up.bias"), nullptr);
}

// Switched off, from max_window_layers on, or as layer_types say.
TEST(Qwen2, WindowsOfLayers) {
  using Numbers = std::vector<int64_t>;
  const json types = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  struct Row {
    json edit;
    Numbers layers, windows;
  };
  const Row rows[] = {
      {{{"max_window_layers", 0}}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {{{"use_sliding_window", true}, {"max_window_layers", 3}}, {0, 0, 0, 1}, {0, 0, 0, 4}},
      {{{"use_sliding_window", true}, {"max_window_layers", 1}, {"layer_types", types}}, {0, 1, 0, 1}, {4, 0, 4, 0}}};
  for (const auto &[edit, layers, windows] : rows) {
    SCOPED_TRACE(edit.dump());
    const ModelDescription qwen = model(with(with(tinyDecoder("qwen2"), {{"sliding_window", 4}}), edit));
    EXPECT_EQ(qwen.layers, layers);
    EXPECT_EQ(int64_t(qwen.kinds.size()), std::ranges::max(layers) + 1);
    EXPECT_EQ(qwen.kinds.back().parameters.size(), qwen.kinds[0].parameters.size());
    for (int64_t layer = 0; layer < 4; ++layer)
      EXPECT_EQ(qwen.blockOf(layer).attention.window, windows[size_t(layer)]);
  }
}

TEST(Qwen3, HeadSizeAndNorms) {
  ModelDescription qwen = model(tinyDecoder("qwen3"));
  EXPECT_EQ(dimsOf(inLayer(qwen, "attn.q.weight")), "g2 r2 d16 h32 ");
  EXPECT_EQ(dimsOf(inLayer(qwen, "attn.o.weight")), "h32 g2 r2 d16 ");
  EXPECT_EQ(dimsOf(inLayer(qwen, "attn.q_norm.weight")), "d16 ");
  EXPECT_EQ(inLayer(qwen, "attn.k_norm.weight").init, plan::InitKind::ones);
  EXPECT_EQ(qwen.blockOf(0).attention.qkNorm->norm.epsilon, 1e-6);
  EXPECT_EQ(model(without(tinyDecoder("qwen3"), "head_dim")).blockOf(0).attention.headDim, 128);
}

TEST(Mixtral, ExpertsOnAllLayers) {
  ModelDescription mixtral = model(tinyDecoder("mixtral"));
  EXPECT_EQ(dimsOf(inLayer(mixtral, "router.weight")), "e8 h32 ");
  const plan::Parameter &down = inLayer(mixtral, "experts.down.weight");
  EXPECT_EQ(dimsOf(down), "e8 h32 m80 ");
  EXPECT_EQ(down.tensor, "model.layers.{}.block_sparse_moe.experts.{#}.w2.weight");
  EXPECT_EQ(down.stacked, 8);
  EXPECT_EQ(mixtral.blockOf(3).experts->chosen, 2);
  EXPECT_EQ(mixtral.blockOf(3).experts->epsilon, 0) << "weights are renormalised";
}

TEST(Qwen2Moe, SharedExpertWithAGate) {
  ModelDescription qwen = model(tinyDecoder("qwen2_moe"));
  EXPECT_EQ(qwen.blockOf(3).experts->shared->ffn, 20);
  EXPECT_TRUE(qwen.blockOf(3).experts->shared->gated);
  EXPECT_FALSE(qwen.blockOf(3).experts->epsilon) << "norm_topk_prob is false unless it is there";
  EXPECT_EQ(dimsOf(inLayer(qwen, "shared.down.weight")), "h32 f20 ");
  const plan::Parameter &scale = inLayer(qwen, "shared.scale.weight");
  EXPECT_EQ(dimsOf(scale), "h32 ");
  EXPECT_EQ(scale.fileShape, std::vector<int64_t>({1, 32}));
  EXPECT_EQ(scale.grouping, std::vector<int64_t>({0, 1}));
  EXPECT_NE(findParameter(qwen.kinds[0].parameters, "attn.q.bias"), nullptr);
  qwen = model(with(tinyDecoder("qwen2_moe"), {{"qkv_bias", false}}));
  EXPECT_EQ(findParameter(qwen.kinds[0].parameters, "attn.q.bias"), nullptr);
}

TEST(Glm4Moe, DenseLayersFirstThenGroupsOfExperts) {
  ModelDescription glm = model(tinyDecoder("glm4_moe"));
  EXPECT_EQ(glm.layers, std::vector<int64_t>({0, 1, 1, 1}));
  EXPECT_EQ(glm.blockOf(0).mlp.ffn, 80);
  const Experts &experts = *glm.blockOf(1).experts;
  EXPECT_EQ(experts.score, "sigmoid");
  EXPECT_TRUE(experts.bias);
  EXPECT_EQ(std::vector<int64_t>({experts.groups, experts.keptGroups, experts.groupTop}),
            std::vector<int64_t>({4, 2, 2}));
  EXPECT_EQ(experts.epsilon, 1e-20) << "norm_topk_prob is true unless it is there";
  EXPECT_EQ(experts.shared->ffn, 24) << "two as one";
  EXPECT_FALSE(experts.shared->gated);
  const plan::Parameter *bias = findParameter(glm.kinds[1].parameters, "router.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->tensor, "model.layers.{}.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(bias->init, plan::InitKind::zeros);
}

// A config.json without the keys is of what the classes of transformers have.
json tinyT5() {
  return {{"model_type", "t5"}, {"vocab_size", 96}, {"d_model", 64},  {"d_kv", 24},
          {"d_ff", 80},         {"num_layers", 2},  {"num_heads", 4}, {"is_encoder_decoder", true},
          {"dropout_rate", 0.0}};
}

TEST(T5, WeightsBeginByTheSizesOfTheirProducts) {
  const ModelDescription found = model(tinyT5());
  EXPECT_DOUBLE_EQ(inLayer(found, "attn.q.weight").initStd, 1 / std::sqrt(64.0 * 24));
  EXPECT_DOUBLE_EQ(inLayer(found, "attn.o.weight").initStd, 1 / std::sqrt(4.0 * 24));
  EXPECT_DOUBLE_EQ(inLayer(found, "cross.k.weight").initStd, 1 / std::sqrt(64.0));
  EXPECT_DOUBLE_EQ(inLayer(found, "mlp.down.weight").initStd, 1 / std::sqrt(80.0));
  EXPECT_DOUBLE_EQ(inLayer(found, "attn.relative_bias").initStd, 1 / std::sqrt(64.0));
  EXPECT_DOUBLE_EQ(findParameter(found.parameters, "embed.tokens")->initStd, 1);
}

TEST(T5, ATiedHeadIsScaledAndAnOwnOneIsNot) {
  EXPECT_DOUBLE_EQ(model(tinyT5()).head.scale, 1 / std::sqrt(64.0));
  const ModelDescription own = model(with(tinyT5(), {{"tie_word_embeddings", false}}));
  EXPECT_FALSE(own.head.tied);
  EXPECT_DOUBLE_EQ(own.head.scale, 1);
  EXPECT_DOUBLE_EQ(model(with(tinyT5(), {{"scale_decoder_outputs", false}})).head.scale, 1);
}

TEST(T5, ActivationsAndTheirGates) {
  const auto mlpOf = [](const char *text) {
    return model(with(tinyT5(), {{"feed_forward_proj", text}})).kinds[0].block.mlp;
  };
  EXPECT_EQ(mlpOf("relu").activation, Activation::relu);
  EXPECT_FALSE(mlpOf("relu").gated);
  EXPECT_EQ(mlpOf("gated-gelu").activation, Activation::geluTanh); // transformers takes gelu_new for it
  EXPECT_EQ(mlpOf("gated-silu").activation, Activation::silu);
  EXPECT_TRUE(mlpOf("gated-silu").gated);
  const Mlp said = model(with(tinyT5(), {{"dense_act_fn", "silu"}, {"is_gated_act", true}})).kinds[0].block.mlp;
  EXPECT_EQ(said.activation, Activation::silu);
  EXPECT_TRUE(said.gated);
}

TEST(T5, TheDecoderHasTheEncodersDepthWhereNoOtherIsSaid) {
  EXPECT_EQ(model(tinyT5()).layerCount(), 2);
  const ModelDescription found = model(with(tinyT5(), {{"num_decoder_layers", 3}}));
  EXPECT_EQ(found.layerCount(), 3);
  EXPECT_EQ(found.encoderLayerCount(), 2);
}

TEST(Bart, AllAttentionIsScaledByTheHead) {
  const ModelDescription found = model(with(tinyBart(), {{"encoder_attention_heads", 2}}));
  const BlockDescription &layer = found.kinds[0].block;
  EXPECT_DOUBLE_EQ(layer.attention.scale, 1 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(layer.cross->scale, 1 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(found.encoder->layer.attention.scale, 0.25);
}

TEST(Experts, MissingKeysHaveTheDefaultsOfTheClass) {
  const auto experts = [](const char *family, json edit) {
    json config = tinyDecoder(family);
    for (const char *key : {"n_shared_experts", "n_group", "topk_group"})
      config.erase(key);
    config.update(edit);
    const ModelDescription description = model(config);
    return *description.blockOf(description.layerCount() - 1).experts;
  };
  const int64_t width = model(tinyDecoder("glm4_moe")).blockOf(1).mlp.ffn;
  EXPECT_EQ(experts("glm4_moe", json::object()).shared->ffn, width);
  EXPECT_EQ(experts("glm4_moe", json::object()).groups, 1);
  EXPECT_EQ(experts("glm4_moe", {{"n_shared_experts", 0}}).shared, std::nullopt);
  const Experts deepseek = experts("deepseek_v3", {{"n_routed_experts", 16}, {"num_experts_per_tok", 2}});
  EXPECT_TRUE(deepseek.shared);
  EXPECT_EQ(std::vector<int64_t>({deepseek.groups, deepseek.keptGroups}), std::vector<int64_t>({8, 4}));
}

TEST(Glm4Moe, APartOfEachHeadRotates) {
  const auto rotated = [](const json &edit) {
    return model(with(tinyDecoder("glm4_moe"), edit)).blockOf(0).attention.rope->dim / 2;
  };
  EXPECT_EQ(rotated(json::object()), 4u) << "half of 16 dimensions, in pairs";
  EXPECT_EQ(rotated({{"partial_rotary_factor", 0.25}}), 2u);
  EXPECT_EQ(rotated({{"partial_rotary_factor", 1.0}}), 8u);
  EXPECT_FALSE(model(tinyDecoder("glm4_moe")).blockOf(0).attention.qkNorm);
  EXPECT_TRUE(model(with(tinyDecoder("glm4_moe"), {{"use_qk_norm", true}})).blockOf(0).attention.qkNorm);
}

TEST(DeepseekV3, LatentAttention) {
  ModelDescription deepseek = model(with(tinyDecoder("deepseek_v3"), {{"rms_norm_eps", 1e-5}}));
  const AttentionDescription &attention = deepseek.blockOf(0).attention;
  EXPECT_EQ(attention.headDim, 16);
  EXPECT_EQ(attention.valueDim(), 8);
  EXPECT_DOUBLE_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.latent->norm.epsilon, 1e-6) << "the class's own";
  EXPECT_TRUE(attention.rope->interleaved);
  EXPECT_EQ(attention.rope->dim / 2, 2u);
  EXPECT_EQ(dimsOf(inLayer(deepseek, "attn.q_b.weight")), "g4 r1 d16 q24 ");
  EXPECT_EQ(dimsOf(inLayer(deepseek, "attn.kv_a.weight")), "z20 h32 ");
  EXPECT_EQ(dimsOf(inLayer(deepseek, "attn.kv_b.weight")), "g4 x20 l16 ");
  EXPECT_EQ(dimsOf(inLayer(deepseek, "attn.o.weight")), "h32 g4 r1 w8 ");
  EXPECT_FALSE(
      model(with(tinyDecoder("deepseek_v3"), {{"rope_interleave", nullptr}})).blockOf(0).attention.rope->interleaved)
      << "null is false to the class";
  EXPECT_FALSE(
      model(with(tinyDecoder("deepseek_v3"), {{"rope_interleave", false}})).blockOf(0).attention.rope->interleaved);
}

TEST(DeepseekV3, ModulesThatPredictLaterTokens) {
  using Names = std::vector<std::string>;
  ModelDescription deepseek = model(with(tinyDecoder("deepseek_v3"), {{"num_nextn_predict_layers", 2}}));
  const plan::Parameter *state = findParameter(deepseek.later.parameters, "later.hidden.weight");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->name, "model.layers.{}.eh_proj.weight[hidden]");
  EXPECT_EQ(dimsOf(*state), "h32 i32 ");
  EXPECT_EQ(state->fileShape, std::vector<int64_t>({32, 64}));
  EXPECT_EQ(state->offset, std::vector<int64_t>({0, 32})) << "behind the columns of the token";
  EXPECT_EQ(findParameter(deepseek.later.parameters, "later.norm.weight")->init, plan::InitKind::ones);
  EXPECT_EQ(findParameter(deepseek.parameters, "embed.tokens")->aliases,
            Names({"embed_tokens.weight", "model.layers.4.embed_tokens.weight", "model.layers.5.embed_tokens.weight"}));
  EXPECT_EQ(findParameter(deepseek.parameters, "head.weight")->aliases,
            Names({"model.layers.4.shared_head.head.weight", "model.layers.5.shared_head.head.weight"}));
  const auto ignores = [&](int64_t trained, const std::string &name) {
    const Names ignored = ignoredTensors(deepseek, trained);
    return std::ranges::find(ignored, name) != ignored.end();
  };
  for (const std::string name : {"eh_proj.weight", "mlp.experts.{}.up_proj.weight", "shared_head.head.weight"}) {
    EXPECT_TRUE(ignores(0, "model.layers.4." + name) && ignores(0, "layers.5." + name)) << name;
    EXPECT_TRUE(!ignores(1, "model.layers.4." + name) && ignores(1, "model.layers.5." + name)) << name;
    EXPECT_FALSE(ignores(2, "model.layers.5." + name)) << name;
  }
  EXPECT_TRUE(model(tinyGpt2()).later.parameters.empty());
}

TEST(DeepseekV2, QueriesOfTheTokenAndTwoMethods) {
  const json greedy = {{"q_lora_rank", nullptr}, {"topk_method", "greedy"}};
  ModelDescription deepseek = model(with(tinyDecoder("deepseek_v2"), greedy));
  EXPECT_EQ(dimsOf(inLayer(deepseek, "attn.q.weight")), "g4 r1 d16 h32 ");
  EXPECT_EQ(deepseek.blockOf(1).experts->groups, 1);
  EXPECT_FALSE(deepseek.blockOf(1).experts->epsilon);
  deepseek = model(with(tinyDecoder("deepseek_v2"), {{"topk_method", "group_limited_greedy"}}));
  EXPECT_EQ(deepseek.blockOf(1).experts->groups, 4);
  EXPECT_EQ(deepseek.blockOf(1).experts->groupTop, 1);
}

// Their scores are multiplied by the square of 0.1 mscale_all_dim ln(factor) + 1.
TEST(DeepseekV2, YarnScalesTheScores) {
  const json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"original_max_position_embeddings", 64},
                     {"mscale", 0.7},
                     {"mscale_all_dim", 0.7}};
  const AttentionDescription attention =
      model(with(tinyDecoder("deepseek_v2"), {{"rope_scaling", yarn}})).blockOf(0).attention;
  EXPECT_DOUBLE_EQ(attention.rope->scale, 1);
  EXPECT_DOUBLE_EQ(attention.scale, 0.25 * std::pow(0.07 * std::log(40) + 1, 2));
}

TEST(GptOss, SinksWindowsAndExpertsWithBiases) {
  ModelDescription oss = model(tinyDecoder("gpt_oss"));
  EXPECT_EQ(oss.layers, std::vector<int64_t>({0, 1, 0, 1}));
  EXPECT_EQ(oss.blockOf(0).attention.window, 4) << "the first of each two, unless layer_types says otherwise";
  EXPECT_EQ(oss.blockOf(1).attention.window, 0);
  EXPECT_TRUE(oss.blockOf(1).attention.sinks);
  EXPECT_EQ(dimsOf(inLayer(oss, "attn.sinks")), "g2 r2 ");
  EXPECT_EQ(inLayer(oss, "attn.sinks").fileShape, std::vector<int64_t>({4}));
  EXPECT_NE(findParameter(oss.kinds[0].parameters, "attn.o.bias"), nullptr);
  const Experts &experts = *oss.blockOf(0).experts;
  EXPECT_EQ(experts.score, "none");
  EXPECT_EQ(experts.post, "softmax");
  EXPECT_FALSE(experts.bias) << "the logits have the bias, not the choice alone";
  EXPECT_EQ(dimsOf(inLayer(oss, "router.logits.bias")), "e8 ");
  const Mlp &mlp = oss.blockOf(0).mlp;
  EXPECT_EQ(mlp.limit, 7);
  EXPECT_TRUE(mlp.upPlusOne && mlp.bias);
  EXPECT_EQ(mlp.activation, Activation::geluQuick);
  EXPECT_EQ(model(with(tinyDecoder("gpt_oss"), {{"swiglu_limit", 1.5}})).blockOf(0).mlp.limit, 1.5);
}

TEST(GptOss, TensorsAreWholeStacks) {
  ModelDescription oss = model(tinyDecoder("gpt_oss"));
  const plan::Parameter &both = inLayer(oss, "experts.gate_up.weight"), &bias = inLayer(oss, "experts.gate_up.bias");
  EXPECT_EQ(dimsOf(both), "e8 h32 m80 j2 ");
  EXPECT_EQ(both.tensor, "model.layers.{}.mlp.experts.gate_up_proj");
  EXPECT_EQ(both.fileShape, std::vector<int64_t>({8, 32, 160})) << "gate and up alternate";
  EXPECT_EQ(both.stacked, 0);
  EXPECT_EQ(bias.fileShape, std::vector<int64_t>({8, 160}));
  EXPECT_EQ(bias.init, plan::InitKind::zeros);
  EXPECT_EQ(inLayer(oss, "experts.down.weight").fileShape, std::vector<int64_t>({8, 80, 32}));
  EXPECT_EQ(inLayer(oss, "experts.down.bias").fileShape, std::vector<int64_t>({8, 32}));
}

TEST(GptOss, LayerTypesAndTheAuxiliaryLossOfTheClass) {
  json types = {"full_attention", "full_attention", "sliding_attention", "full_attention"};
  ModelDescription oss = model(with(tinyDecoder("gpt_oss"), {{"layer_types", types}, {"output_router_logits", true}}));
  EXPECT_EQ(oss.layers, std::vector<int64_t>({0, 0, 1, 0}));
  EXPECT_EQ(oss.blockOf(2).attention.window, 4);
  EXPECT_EQ(oss.pooledAuxLoss, 0.001);
}

TEST(Qwen3Moe, DenseLayersByNumber) {
  const json dense = {{"mlp_only_layers", {0, 3}}, {"decoder_sparse_step", 2}};
  ModelDescription qwen = model(with(tinyDecoder("qwen3_moe"), dense));
  EXPECT_EQ(qwen.layers, std::vector<int64_t>({0, 1, 0, 0}));
  EXPECT_TRUE(qwen.blockOf(1).experts && !qwen.blockOf(0).experts);
}

TEST(Qwen3Moe, ExpertsOnSomeLayersAndOneWindow) {
  ModelDescription qwen = model(with(tinyDecoder("qwen3_moe"), {{"decoder_sparse_step", 2}}));
  EXPECT_FALSE(qwen.blockOf(0).experts);
  EXPECT_EQ(qwen.blockOf(0).mlp.ffn, 80);
  EXPECT_EQ(qwen.blockOf(1).experts->count, 8);
  EXPECT_EQ(qwen.blockOf(1).mlp.ffn, 12);
  EXPECT_FALSE(qwen.blockOf(1).experts->epsilon) << "norm_topk_prob is false unless it is there";
  EXPECT_EQ(qwen.blockOf(0).attention.headDim, 8) << "hidden_size / num_attention_heads";
  const json windowed = {{"use_sliding_window", true}, {"sliding_window", 4}, {"max_window_layers", 2}};
  EXPECT_EQ(model(with(tinyDecoder("qwen3_moe"), windowed)).blockOf(0).attention.window, 4);
  EXPECT_EQ(model(with(tinyDecoder("qwen3_moe"), {{"sliding_window", 4}})).blockOf(0).attention.window, 0);
}

// --- Two spellings of one model ----------------------------------------------------------------------------

json newSpelling(json config) {
  json rope = config.contains("rope_scaling") && !config["rope_scaling"].is_null() ? config["rope_scaling"]
                                                                                   : json{{"rope_type", "default"}};
  rope["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = rope;
  config["dtype"] = config["torch_dtype"];
  config.erase("torch_dtype");
  return config;
}

json llama3Scaling(const char *typeKey) {
  return {{typeKey, "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 32}};
}

TEST(Spellings, EqualForEveryFamily) {
  for (const char *type : {"llama", "mistral", "qwen2", "qwen3"})
    for (const json &scaling : {json(nullptr), json{{"type", "linear"}, {"factor", 2}}, llama3Scaling("rope_type")}) {
      json old = with(tinyDecoder(type), {{"rope_scaling", scaling}});
      EXPECT_EQ(describe(model(old)), describe(model(newSpelling(old)))) << type << " " << scaling;
    }
}

TEST(Spellings, TypeAndRopeType) {
  json old = with(tinyDecoder("llama"), {{"rope_scaling", llama3Scaling("type")}});
  json now = with(tinyDecoder("llama"), {{"rope_scaling", llama3Scaling("rope_type")}});
  EXPECT_EQ(describe(model(old)), describe(model(now)));
  EXPECT_NE(describe(model(old)), describe(model(tinyDecoder("llama"))));
}

TEST(Spellings, LayerTypesOfQwen) {
  json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
  for (const char *type : {"qwen2", "qwen3"}) {
    json old = with(tinyDecoder(type), {{"use_sliding_window", false}, {"sliding_window", 4}});
    json now =
        with(tinyDecoder(type), {{"use_sliding_window", false}, {"sliding_window", nullptr}, {"layer_types", full}});
    EXPECT_EQ(describe(model(old)), describe(model(now)));
  }
}

} // namespace
