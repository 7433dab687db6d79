// See ModelFlags.h.
#include "model/ModelFlags.h"

#include "model/LayerPattern.h"
#include "model/ModelFlagRows.h"
#include "runtime/base/NumberText.h"
#include "runtime/base/Problems.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/ranges.h>

namespace mgc::frontend {

namespace {

const BlockDescription &blockOf(const ModelDescription &model) { return model.kinds.front().block; }
const AttentionDescription &attentionOf(const ModelDescription &model) { return blockOf(model).attention; }

// The norm that --normalization means: the one behind the layers, else the first of a layer.
Norm normOf(const ModelDescription &model) {
  const BranchDescription &branch = blockOf(model).attentionBranch;
  for (const std::optional<Norm> &norm : {model.finalNorm, branch.before, branch.after, branch.sum})
    if (norm)
      return *norm;
  return {};
}

template <typename T> std::string text(const T &value) { return fmt::format("{}", value); }

// The first kind of layer with experts, or without; null: there is none.
const BlockDescription *layerOf(const ModelDescription &model, bool hasExperts) {
  const auto kind = std::ranges::find(model.kinds, hasExperts, &BlockKind::hasExperts);
  return kind == model.kinds.end() ? nullptr : &kind->block;
}

bool isGelu(Activation activation) { return activation == Activation::geluErf || activation == Activation::geluTanh; }

// Experts have the width of Megatron-LM's --ffn-hidden-size where no other is given, as in families with one key for
// both; a width that no layer has is not read: any is right.
std::string ffnOf(const ModelDescription &model, bool ofExperts) {
  const BlockDescription *layer = layerOf(model, ofExperts);
  if (!layer && model.names.ffn == model.names.expertFfn)
    layer = layerOf(model, !ofExperts);
  return layer ? text(layer->mlp.ffn) : "";
}

std::vector<bool> expertLayersOf(const ModelDescription &model) {
  std::vector<bool> layers;
  for (const int64_t kind : model.layers)
    layers.push_back(model.kinds[kind].hasExperts());
  return layers;
}

// Facts of experts, of the first layer that has them.
std::vector<ModelFlag> expertFlags() {
  using Model = ModelDescription;
  const auto of = [](auto fact) {
    return [fact](const Model &m) -> std::string {
      const BlockDescription *layer = layerOf(m, true);
      return layer ? text(fact(*layer->experts)) : std::string(kNone);
    };
  };
  const auto isTrue = [](auto fact) {
    return [fact](const Model &m) {
      const BlockDescription *layer = layerOf(m, true);
      return text(layer && fact(*layer->experts));
    };
  };
  return {
      {"--num-experts", &KeyNames::experts, of([](const Experts &e) { return e.count; })},
      {.flag = "--moe-layer-freq",
       .where = "first_k_dense_replace",
       .valueOf = [](const Model &m) { return m.hasExperts() ? patternOf(expertLayersOf(m)) : ""; },
       .isSame =
           [](const Model &m, std::string_view given) {
             const Result<std::vector<bool>> asked = layersWithExperts(given, m.layerCount());
             return asked.isOk() && *asked == expertLayersOf(m);
           }},
      {"--moe-ffn-hidden-size", &KeyNames::expertFfn, [](const Model &m) { return ffnOf(m, true); }},
      {"--moe-router-topk", "num_experts_per_tok", of([](const Experts &e) { return e.chosen; }), false, {"--topk"}},
      {"--moe-router-score-function", "model_type", // applied to logits: the softmax of the chosen ones
       of([](const Experts &e) { return e.score == "none" ? e.post : e.score; })},
      {"--moe-router-pre-softmax", "norm_topk_prob", // else the weights of those chosen add up to 1
       isTrue([](const Experts &e) { return e.score != "none" && !(e.score == "softmax" && e.epsilon); }), true},
      {"--moe-router-num-groups", "n_group", of([](const Experts &e) { return e.groups; })},
      {"--moe-router-group-topk", "topk_group", of([](const Experts &e) { return e.keptGroups; })},
      {"--moe-router-topk-scaling-factor", "routed_scaling_factor", of([](const Experts &e) { return e.scale; })},
      {"--moe-router-enable-expert-bias", "model_type", isTrue([](const Experts &e) { return e.bias; }), true},
      {"--moe-shared-expert-intermediate-size", &KeyNames::sharedFfn,
       of([](const Experts &e) { return e.shared ? e.shared->ffn : 0; })},
      {"--moe-shared-expert-gate", "model_type", isTrue([](const Experts &e) { return e.shared && e.shared->gated; }),
       true},
  };
}

std::vector<ModelFlag> latentFlags() {
  using Model = ModelDescription;
  const auto of = [](auto fact) {
    return [fact](const Model &m) -> std::string {
      const AttentionDescription &attention = attentionOf(m);
      return attention.latent ? text(fact(attention)) : std::string(kNone);
    };
  };
  using Attention = AttentionDescription;
  return {
      {"--multi-latent-attention", "model_type", [](const Model &m) { return text(attentionOf(m).latent.has_value()); },
       true},
      {"--q-lora-rank", "q_lora_rank", of([](const Attention &a) { return a.latent->queryRank; })},
      {"--kv-lora-rank", "kv_lora_rank", of([](const Attention &a) { return a.latent->keyRank; })},
      {.flag = "--qk-head-dim",
       .where = "qk_nope_head_dim",
       .valueOf = of([](const Attention &a) { return a.headDim - a.latent->rotaryDim; }),
       .aliases = {"--qk-nope-head-dim"}},
      {.flag = "--qk-pos-emb-head-dim",
       .where = "qk_rope_head_dim",
       .valueOf = of([](const Attention &a) { return a.latent->rotaryDim; }),
       .aliases = {"--qk-rope-head-dim"}},
      {"--v-head-dim", "v_head_dim", of([](const Attention &a) { return a.latent->valueDim; })},
  };
}

std::vector<ModelFlag> decoderFlags() {
  using Model = ModelDescription;
  const auto hiddenDropout = [](const Model &m) { // one number in Megatron-LM
    const BlockDescription &block = blockOf(m);
    std::vector<double> all = {block.attentionBranch.dropout, block.mlpBranch.dropout, m.embedding.dropout};
    all.erase(std::ranges::unique(all).begin(), all.end());
    return fmt::format("{}", fmt::join(all, " and "));
  };
  return {
      {"--num-layers", &KeyNames::layers, [](const Model &m) { return text(m.layerCount()); }},
      {"--encoder-num-layers", &KeyNames::encoderLayers,
       [](const Model &m) { return m.encoder ? text(m.encoderLayerCount()) : text(m.layerCount()); }},
      {"--decoder-num-layers", &KeyNames::layers,
       [](const Model &m) { return m.encoder ? text(m.layerCount()) : std::string(kNone); }},
      {"--hidden-size", &KeyNames::hidden, [](const Model &m) { return text(m.hidden); }},
      {"--num-attention-heads", &KeyNames::heads, [](const Model &m) { return text(attentionOf(m).heads); }},
      {.flag = "--num-query-groups",
       .where = &KeyNames::groups,
       .valueOf = [](const Model &m) { return text(attentionOf(m).groups); },
       .aliases = {"--num-key-value-heads"}},
      {"--group-query-attention", &KeyNames::groups, // --num-query-groups says how many; as many as heads too
       [](const Model &) { return text(true); }, true},
      {"--kv-channels", &KeyNames::headDim, // latent attention has other flags for the sizes of its heads
       [](const Model &m) { return attentionOf(m).latent ? "" : text(attentionOf(m).headDim); }},
      {"--ffn-hidden-size", &KeyNames::ffn, [](const Model &m) { return ffnOf(m, false); }},
      {"--vocab-size", "vocab_size", [](const Model &m) { return text(m.vocabulary); }},
      {.flag = "--norm-epsilon",
       .where = &KeyNames::normEpsilon,
       .valueOf = [](const Model &m) { return text(normOf(m).epsilon); },
       .aliases = {"--layernorm-epsilon"}},
      {"--normalization", "model_type",
       [](const Model &m) { return std::string(normOf(m).kind == NormKind::rms ? "RMSNorm" : "LayerNorm"); }},
      {"--untie-embeddings-and-output-weights", "tie_word_embeddings",
       [](const Model &m) { return text(!m.head.tied); }, true},
      {"--swiglu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.gated && blockOf(m).mlp.activation == Activation::silu); },
       true},
      {"--quick-geglu", "model_type",
       [](const Model &m) { return text(blockOf(m).mlp.gated && blockOf(m).mlp.activation == Activation::geluQuick); },
       true},
      {"--glu-linear-offset", "model_type", [](const Model &m) { return text(blockOf(m).mlp.upPlusOne ? 1 : 0); }},
      {"--activation-func-clamp-value", "swiglu_limit",
       [](const Model &m) { return blockOf(m).mlp.limit > 0 ? text(blockOf(m).mlp.limit) : std::string(kNone); }},
      {"--openai-gelu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.activation == Activation::geluTanh); }, true},
      {"--squared-relu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.activation == Activation::relu2); }, true},
      {"--no-bias-gelu-fusion", &KeyNames::activation, // with biases Megatron-LM's fused kernel is that of tanh
       [](const Model &m) {
         const Mlp &mlp = blockOf(m).mlp;
         return !isGelu(mlp.activation) || mlp.gated || !mlp.bias ? "" : text(mlp.activation == Activation::geluErf);
       },
       true},
      {"--apply-layernorm-1p", "model_type", [](const Model &m) { return text(normOf(m).offset == 1); }, true},
      {"--embed-layernorm", "model_type", [](const Model &m) { return text(m.embedding.norm.has_value()); }, true},
      {"--add-qkv-bias", "attention_bias", [](const Model &m) { return text(attentionOf(m).qkvBias); }, true},
      {"--disable-bias-linear", "mlp_bias",
       [](const Model &m) { return text(!blockOf(m).mlp.bias && !attentionOf(m).outBias); }, true},
      {"--qk-layernorm", "model_type", // the norms of latent attention are those of its latents
       [](const Model &m) { return text(attentionOf(m).qkNorm || attentionOf(m).latent); }, true},
      {"--hidden-dropout", &KeyNames::hiddenDropout, hiddenDropout},
      {"--attention-dropout", &KeyNames::attentionDropout, [](const Model &m) { return text(attentionOf(m).dropout); }},
      {"--no-scaled-init", "scaled_residual_init", [](const Model &m) { return text(!m.scaledResidualInit); }, true},
      {"--init-method-std", "initializer_range", [](const Model &m) { return text(m.initializerRange); }},
  };
}

std::vector<ModelFlag> makeFlags() {
  std::vector<ModelFlag> flags = decoderFlags();
  for (const auto &more : {positionFlags(), expertFlags(), latentFlags()})
    flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::optional<double> numberIn(std::string_view given) {
  const std::string text = plainNumber(given);
  double value = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// "1e-5" and "0.00001" are one number; projects that began with Megatron-LM write words in small letters.
bool areEqual(std::string_view a, std::string_view b) {
  const std::optional<double> x = numberIn(a), y = numberIn(b);
  const auto small = [](unsigned char c) { return std::tolower(c); };
  return x && y ? *x == *y : std::ranges::equal(a, b, {}, small, small);
}

} // namespace

const std::vector<ModelFlag> &modelFlags() {
  static const std::vector<ModelFlag> flags = makeFlags();
  return flags;
}

std::string ModelFlag::key(const KeyNames &names) const {
  const auto *const field = std::get_if<std::string KeyNames::*>(&where);
  return field ? names.**field : std::get<const char *>(where);
}

const ModelFlag *findModelFlag(std::string_view flag) {
  const auto found = std::ranges::find_if(modelFlags(), [&](const ModelFlag &row) {
    return row.flag == flag || std::ranges::find(row.aliases, flag) != row.aliases.end();
  });
  return found == modelFlags().end() ? nullptr : &*found;
}

Status verifyModelFlags(const ModelDescription &model, const std::vector<GivenModelFlag> &given) {
  Problems problems(model.source);
  for (const GivenModelFlag &one : given) {
    const ModelFlag &fact = *findModelFlag(one.flag);
    const std::string found = fact.valueOf(model);
    if (found.empty() || (fact.isSame ? fact.isSame(model, one.value) : areEqual(one.value, found)))
      continue;
    const std::string key = fact.key(model.names);
    const bool isInFile = model.text.find('"' + key + '"') != std::string::npos; // else it follows from others
    problems.add("{} {}: the model has {}{}", one.flag, one.value, found, isInFile ? fmt::format(" ({})", key) : "");
    problems.hint("expected the same; the model comes from this file, so leave {} out{}", one.flag,
                  isInFile ? " or change the file" : "");
  }
  return problems.empty() ? Status::ok() : problems.status();
}

} // namespace mgc::frontend
