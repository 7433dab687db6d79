// SantaCoder and StarCoder: GPT-2 with one head of keys and values, or as many as of queries; weights stored [out, in].
#include "frontend/model/families/Gpt2.h"

namespace mgc::frontend {

// Softmax is in f32 anyway; the head of classifiers; serving.
static constexpr std::string_view kIgnored[] = {"attention_softmax_in_fp32",
                                                "scale_attention_softmax_in_fp32",
                                                "summary_activation",
                                                "summary_first_dropout",
                                                "summary_proj_to_labels",
                                                "summary_type",
                                                "summary_use_proj",
                                                "inference_runner",
                                                "max_batch_size",
                                                "max_sequence_length",
                                                "pad_key_length",
                                                "pre_allocate_kv_cache",
                                                "validate_runner_input"};

static constexpr TensorRow kRows[] = {
    {"attn.q.weight", "transformer.h.{}.attn.c_attn.weight", "g(rd|d|d) h", "q", 0},
    {"attn.q.bias", "transformer.h.{}.attn.c_attn.bias", "g(rd|d|d)", "q", 0},
    {"attn.k.weight", "transformer.h.{}.attn.c_attn.weight", "g(rd|d|d) h", "k", 1},
    {"attn.k.bias", "transformer.h.{}.attn.c_attn.bias", "g(rd|d|d)", "k", 1},
    {"attn.v.weight", "transformer.h.{}.attn.c_attn.weight", "g(rd|d|d) h", "v", 2},
    {"attn.v.bias", "transformer.h.{}.attn.c_attn.bias", "g(rd|d|d)", "v", 2},
    {"attn.o.weight", "transformer.h.{}.attn.c_proj.weight", "h grw", "", 0, /*residualInit=*/true},
    {"mlp.up.weight", "transformer.h.{}.mlp.c_fc.weight", "f h"},
    {"mlp.down.weight", "transformer.h.{}.mlp.c_proj.weight", "h f", "", 0, /*residualInit=*/true}};

// Causal masks.
static constexpr std::string_view kIgnoredTensors[] = {
    "transformer.h.{}.attn.bias", "transformer.h.{}.attn.masked_bias", "transformer.bias"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names = gptNames();
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const bool hasOneGroup = config.flag("multi_query", true);
  const bool isUsable = readGpt2(config, model, block, "gelu_pytorch_tanh");
  if (hasOneGroup)
    block.attention.groups = 1;
  const int64_t groups = block.attention.groups;
  if (const int64_t said = config.sizeOr("num_key_value_heads", groups, kMaxHeads);
      said != groups && said && groups)
    config.refuse("num_key_value_heads", fmt::format("contradicts multi_query and n_head"),
                  fmt::format("expected {}", groups));
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kGptBigCode;
const Family kGptBigCode = {
    "gpt_bigcode", "GPTBigCodeForCausalLM", kIgnored, {}, {"transformer.", kGpt2Rows, kIgnoredTensors, kRows},
    read};

} // namespace mgc::frontend
