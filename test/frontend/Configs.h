// Small model descriptions for the tests, and readers that edit one before it is parsed.
#pragma once

#include "frontend/Load.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mgc::frontend {

using nlohmann::json;

inline json tinyGpt2() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", 100},    {"n_embd", 32},
          {"n_layer", 4},         {"n_head", 4},
          {"n_positions", 64},    {"activation_function", "gelu_new"},
          {"resid_pdrop", 0.0},   {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},    {"layer_norm_epsilon", 1e-5},
          {"n_inner", nullptr},   {"tie_word_embeddings", true}};
}

// Llama, Mistral, Qwen2 and Qwen3 with the spelling before transformers 5.
inline json tinyDecoder(const std::string &type) {
  json config = {{"model_type", type},       {"vocab_size", 128},
                 {"hidden_size", 32},        {"num_hidden_layers", 4},
                 {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"intermediate_size", 80},  {"max_position_embeddings", 64},
                 {"rms_norm_eps", 1e-6},     {"rope_theta", 10000.0},
                 {"hidden_act", "silu"},     {"tie_word_embeddings", false},
                 {"torch_dtype", "float32"}};
  if (type == "mistral")
    config["sliding_window"] = nullptr;
  if (type == "qwen3")
    config["head_dim"] = 16;
  if (type == "mixtral")
    config.update({{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
  if (type == "gpt_oss")
    config.update({{"num_local_experts", 8},
                   {"num_experts_per_tok", 2},
                   {"head_dim", 8},
                   {"sliding_window", 4},
                   {"rope_scaling", {{"rope_type", "default"}}}});
  if (type == "qwen2_moe")
    config.update({{"num_experts", 8},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 12},
                   {"shared_expert_intermediate_size", 20}});
  if (type == "glm4_moe" || type.starts_with("deepseek"))
    config.update({{"n_routed_experts", 8},
                   {"num_experts_per_tok", 2},
                   {"n_shared_experts", 2},
                   {"moe_intermediate_size", 12},
                   {"n_group", 4},
                   {"topk_group", 2},
                   {"first_k_dense_replace", 1}});
  if (type == "glm4_moe")
    config["head_dim"] = 16;
  if (type.starts_with("deepseek"))
    config.update({{"num_key_value_heads", 4},
                   {"q_lora_rank", 24},
                   {"kv_lora_rank", 16},
                   {"qk_nope_head_dim", 12},
                   {"qk_rope_head_dim", 4},
                   {"v_head_dim", 8}});
  if (type == "qwen3_moe")
    config.update({{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 12}});
  return config;
}

// An encoder of 2 layers, a decoder of 3.
inline json tinyBart() {
  return {{"model_type", "bart"},          {"vocab_size", 128},     {"d_model", 32},
          {"encoder_layers", 2},           {"decoder_layers", 3},   {"encoder_attention_heads", 4},
          {"decoder_attention_heads", 4},  {"encoder_ffn_dim", 48}, {"decoder_ffn_dim", 80},
          {"max_position_embeddings", 64}, {"dropout", 0.0},        {"is_encoder_decoder", true}};
}

// A tower of 3 layers over 3 x 3 patches and a class token, of which 2 layers make features; a Llama of 2 layers.
inline json tinyLlava() {
  json text = tinyDecoder("llama");
  text["num_hidden_layers"] = 2;
  return {{"model_type", "llava"},
          {"text_config", text},
          {"image_token_index", 99},
          {"vision_config",
           {{"model_type", "clip_vision_model"},
            {"hidden_size", 24},
            {"intermediate_size", 40},
            {"num_hidden_layers", 3},
            {"num_attention_heads", 4},
            {"image_size", 12},
            {"patch_size", 4}}}};
}

inline Result<ModelFile> parse(const json &config) { return parseModel(config.dump(), "config.json"); }

inline ModelDescription model(const json &config) {
  Result<ModelFile> file = parse(config);
  if (!file.isOk()) {
    ADD_FAILURE() << file.status().message();
    return {};
  }
  return file->model;
}

// The whole message; empty when the config was accepted.
inline std::string errorOf(const json &config) {
  Result<ModelFile> file = parse(config);
  return file.isOk() ? "" : file.status().message();
}

inline json with(json config, const json &edit) {
  config.update(edit);
  return config;
}

inline json without(json config, const std::string &key) {
  config.erase(key);
  return config;
}

} // namespace mgc::frontend
