// See ModelFlags.h.
#include "model/ModelFlags.h"

#include "runtime/base/Problems.h"

#include <algorithm>
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

constexpr std::string_view kNone = "none";

// Experts have the width of Megatron-LM's --ffn-hidden-size where no other is given, as in families with one key for
// both; a width that no layer has is not read: any is right.
std::string ffnOf(const ModelDescription &model, bool ofExperts) {
  const BlockDescription *layer = layerOf(model, ofExperts);
  if (!layer && model.names.ffn == model.names.expertFfn)
    layer = layerOf(model, !ofExperts);
  return layer ? text(layer->mlp.ffn) : "";
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
      {"--moe-ffn-hidden-size", &KeyNames::expertFfn, [](const Model &m) { return ffnOf(m, true); }},
      {"--moe-router-topk", "num_experts_per_tok", of([](const Experts &e) { return e.chosen; })},
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
      {"--qk-head-dim", "qk_nope_head_dim", of([](const Attention &a) { return a.headDim - a.latent->rotaryDim; })},
      {"--qk-pos-emb-head-dim", "qk_rope_head_dim", of([](const Attention &a) { return a.latent->rotaryDim; })},
      {"--v-head-dim", "v_head_dim", of([](const Attention &a) { return a.latent->valueDim; })},
  };
}

std::vector<ModelFlag> decoderFlags() {
  using Model = ModelDescription;
  const auto rope = [](const Model &m) { return attentionOf(m).rope; };
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
      {"--num-query-groups", &KeyNames::groups, [](const Model &m) { return text(attentionOf(m).groups); }},
      {"--group-query-attention", &KeyNames::groups, // --num-query-groups says how many; as many as heads too
       [](const Model &) { return text(true); }, true},
      {"--kv-channels", &KeyNames::headDim, [](const Model &m) { return text(attentionOf(m).headDim); }},
      {"--ffn-hidden-size", &KeyNames::ffn, [](const Model &m) { return ffnOf(m, false); }},
      {"--max-position-embeddings", &KeyNames::positions, [](const Model &m) { return text(m.maxPositions); }},
      {"--vocab-size", "vocab_size", [](const Model &m) { return text(m.vocabulary); }},
      {"--norm-epsilon", &KeyNames::normEpsilon, [](const Model &m) { return text(normOf(m).epsilon); }},
      {"--normalization", "model_type",
       [](const Model &m) { return std::string(normOf(m).kind == NormKind::rms ? "RMSNorm" : "LayerNorm"); }},
      {"--position-embedding-type", "model_type",
       [](const Model &m) {
         const AttentionDescription &attention = attentionOf(m);
         const char *none = attention.rope ? "rope" : attention.relativeBias ? "relative" : "none";
         return std::string(m.embedding.learnedPositions ? "learned_absolute" : none);
       }},
      {"--use-rotary-position-embeddings", "model_type", [=](const Model &m) { return text(rope(m).has_value()); },
       true},
      {"--rotary-base", "rope_theta", [=](const Model &m) { return rope(m) ? text(rope(m)->theta) : "none"; }},
      {"--rotary-percent", "partial_rotary_factor",
       [=](const Model &m) {
         const AttentionDescription &attention = attentionOf(m);
         const int64_t size = attention.latent ? attention.latent->rotaryDim : attention.headDim;
         return rope(m) ? text(double(rope(m)->dim) / double(size)) : std::string(kNone);
       }},
      {"--untie-embeddings-and-output-weights", "tie_word_embeddings",
       [](const Model &m) { return text(!m.head.tied); }, true},
      {"--swiglu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.gated && blockOf(m).mlp.activation == Activation::silu); },
       true},
      {"--openai-gelu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.activation == Activation::geluTanh); }, true},
      {"--squared-relu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.activation == Activation::relu2); }, true},
      {"--add-qkv-bias", "attention_bias", [](const Model &m) { return text(attentionOf(m).qkvBias); }, true},
      {"--disable-bias-linear", "mlp_bias",
       [](const Model &m) { return text(!blockOf(m).mlp.bias && !attentionOf(m).outBias); }, true},
      {"--qk-layernorm", "model_type", [](const Model &m) { return text(attentionOf(m).qkNorm.has_value()); }, true},
      {"--hidden-dropout", &KeyNames::hiddenDropout, hiddenDropout},
      {"--attention-dropout", &KeyNames::attentionDropout, [](const Model &m) { return text(attentionOf(m).dropout); }},
      {"--init-method-std", "initializer_range", [](const Model &m) { return text(m.initializerRange); }},
  };
}

std::vector<ModelFlag> makeFlags() {
  std::vector<ModelFlag> flags = decoderFlags();
  for (const auto &more : {expertFlags(), latentFlags()})
    flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// "1e-5" and "0.00001" are one number.
bool areEqual(std::string_view a, std::string_view b) {
  double x = 0, y = 0;
  const auto isNumber = [](std::string_view text, double &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  return isNumber(a, x) && isNumber(b, y) ? x == y : a == b;
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
  const auto found = std::ranges::find(modelFlags(), flag, &ModelFlag::flag);
  return found == modelFlags().end() ? nullptr : &*found;
}

Status verifyModelFlags(const ModelDescription &model, const std::vector<GivenModelFlag> &given) {
  Problems problems(model.source);
  for (const GivenModelFlag &one : given) {
    const ModelFlag &fact = *findModelFlag(one.flag);
    const std::string found = fact.valueOf(model);
    if (found.empty() || areEqual(one.value, found))
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
