#include "model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static void readHeads(Config &config, const ModelDescription &model, AttentionDescription &attention,
                      const DecoderFields &fields) {
  const KeyNames &names = model.names;
  attention.heads = config.size(names.heads, kMaxHeads);
  if (names.groups == names.heads)
    attention.groups = attention.heads;
  else
    attention.groups = config.sizeOr(names.groups, attention.heads, kMaxHeads);
  if (attention.heads && attention.groups && attention.heads % attention.groups != 0)
    config.refuse(names.groups, fmt::format("does not divide {} = {}", names.heads, attention.heads),
                  fmt::format("possible {}: {}", names.groups, listOf(divisorsOf(attention.heads, kMaxHeads))));
  if (fields.hasHeadDim)
    attention.headDim = config.sizeOr(names.headDim, 0, kMaxHeadDim);
  if ((fields.hasHeadDim && config.isSet(names.headDim)) || !attention.heads || !model.hidden)
    return;
  attention.headDim = model.hidden / attention.heads;
  if (model.hidden % attention.heads != 0) {
    config.report().add("{} = {} does not divide over {} = {}", names.hidden, model.hidden, names.heads,
                        attention.heads);
    config.report().hint("possible {}: {}", names.heads, listOf(divisorsOf(model.hidden, kMaxHeads)));
  }
}

// Each head has keys and values of its own. The classes norm latents with an epsilon of their own, whatever
// rms_norm_eps says.
static void readLatentHeads(Config &config, AttentionDescription &attention) {
  constexpr double kLatentEpsilon = 1e-6;
  LatentAttention latent;
  attention.heads = attention.groups = config.size("num_attention_heads", kMaxHeads);
  if (config.sizeOr("num_key_value_heads", attention.heads, kMaxHeads) != attention.heads)
    config.refuse("num_key_value_heads", fmt::format("is not num_attention_heads = {}", attention.heads),
                  "keys and values of latent attention are made for each head");
  latent.queryRank = config.sizeOr("q_lora_rank", 0, kMaxHidden);
  latent.keyRank = config.size("kv_lora_rank", kMaxHidden);
  latent.rotaryDim = config.size("qk_rope_head_dim", kMaxHeadDim);
  latent.valueDim = config.size("v_head_dim", kMaxHeadDim);
  latent.norm = rmsNorm(kLatentEpsilon);
  const int64_t still = config.size("qk_nope_head_dim", kMaxHeadDim);
  attention.headDim = still + latent.rotaryDim;
  for (const auto &[key, value] : {std::pair("qk_head_dim", attention.headDim), {"head_dim", latent.rotaryDim}})
    if (const int64_t found = config.sizeOr(key, value, 2 * kMaxHeadDim); found != value && found && value)
      config.refuse(key,
                    fmt::format("contradicts qk_nope_head_dim = {} and qk_rope_head_dim = {}", still, latent.rotaryDim),
                    fmt::format("expected {}", value));
  attention.latent = latent;
}

KeyNames gptNames() {
  return {.heads = "n_head",
          .groups = "n_head",
          .ffn = "n_inner",
          .layers = "n_layer",
          .positions = "n_positions",
          .hidden = "n_embd",
          .normEpsilon = "layer_norm_epsilon",
          .activation = "activation_function",
          .attentionDropout = "attn_pdrop"};
}

static void readRotation(Config &config, const ModelDescription &model, AttentionDescription &attention,
                         RopeFields fields) {
  const int64_t turning = attention.latent ? attention.latent->rotaryDim : attention.headDim;
  const std::string_view key = attention.latent ? "qk_rope_head_dim" : std::string_view(model.names.headDim);
  if (turning % 2 != 0 && config.isSet(key))
    config.refuse(key, "is odd; rotary positions turn pairs", "");
  else if (turning % 2 != 0)
    config.refuse(model.names.heads,
                  fmt::format("makes heads of {}, which is odd; rotary positions turn pairs", turning), "");
  fields.maxPositions = model.maxPositions;
  const RopeOfFile file = readRope(config, turning, fields);
  attention.rope = file.rope;
  if (attention.latent)
    attention.scale = file.scoreScale * file.scoreScale / std::sqrt(static_cast<double>(attention.headDim));
}

static void readMlp(Config &config, const ModelDescription &model, Mlp &mlp, const DecoderFields &fields) {
  const KeyNames &names = model.names;
  const auto words = wordsOf(Of<Activation>());
  mlp.gated = fields.gated;
  mlp.activation = names.activation.empty()
                       ? std::ranges::find(words, fields.activation, [](auto &row) { return row.first; })->second
                       : config.choice(names.activation, fields.activation, words);
  const int64_t derived = fields.ffnOverHidden * model.hidden;
  if (names.ffn.empty())
    mlp.ffn = derived;
  else
    mlp.ffn = fields.ffnOverHidden > 0 ? config.sizeOr(names.ffn, derived, kMaxFfn) : config.size(names.ffn, kMaxFfn);
}

static void readBiases(Config &config, const DecoderFields &fields, BlockDescription &block) {
  for (const BiasField &field : fields.biases) {
    const bool isBiased = field.key.empty() || config.flag(field.key, false);
    for (const auto &[place, bias] :
         {std::pair(kQkv, &block.attention.qkvBias), {kOut, &block.attention.outBias}, {kMlp, &block.mlp.bias}})
      if (field.places & place)
        *bias = isBiased;
  }
}

static void readSizes(Config &config, ModelDescription &model) {
  const KeyNames &names = model.names;
  model.vocabulary = config.size("vocab_size", kMaxVocabulary);
  model.hidden = config.size(names.hidden, kMaxHidden);
  model.maxPositions = names.positions.empty() ? kMaxPositions : config.size(names.positions, kMaxPositions);
}

// As torch.nn.Embedding reads it: a negative one counts from the end.
static void readPadding(Config &config, ModelDescription &model) {
  std::optional<int64_t> &token = model.paddingToken;
  token = config.integer("pad_token_id", -model.vocabulary, model.vocabulary - 1);
  if (token && *token < 0)
    *token += model.vocabulary;
}

void readDecoder(Reading &reading, const DecoderFields &fields) {
  auto &[config, model, block, count, layers] = reading;
  const KeyNames &names = model.names;
  AttentionDescription &attention = block.attention;
  readBiases(config, fields, block);
  if (fields.hasWindow)
    attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  count = config.size(names.layers, kMaxLayers);
  readSizes(config, model);
  model.head.tied = config.flag("tie_word_embeddings", true);
  model.initializerRange = config.number("initializer_range", 0.02, 0, 1e3);
  Norm norm = fields.norm;
  if (!names.normEpsilon.empty())
    norm.epsilon = config.number(names.normEpsilon, norm.epsilon, 0, 1);
  model.finalNorm = block.attentionBranch.before = block.mlpBranch.before = norm;
  if (fields.isLatent)
    readLatentHeads(config, attention);
  else
    readHeads(config, model, attention, fields);
  if (!names.attentionDropout.empty())
    attention.dropout = config.probability(names.attentionDropout, 0);
  readMlp(config, model, block.mlp, fields);
  if (fields.hasRope)
    readRotation(config, model, attention, fields.rope);
  if (fields.hasPadding)
    readPadding(config, model);
  if (fields.hasHiddenDropout)
    block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability(names.hiddenDropout, 0);
}

Experts readExperts(Config &config, std::string_view countKey) {
  Experts experts;
  experts.count = config.size(countKey, kMaxExperts);
  experts.chosen = config.size("num_experts_per_tok", kMaxChosen);
  if (experts.count && experts.chosen > experts.count)
    config.refuse("num_experts_per_tok", fmt::format("is more than {} = {}", countKey, experts.count),
                  "expected at most as many as there are experts");
  return experts;
}

void readClip(Reading &reading) { reading.block.attention.clip = reading.config.number("clip_qkv", 0, 1e-6, 1e15); }

DecoderFields gptLike(DecoderFields fields, const Norm &norm) {
  fields.hasHeadDim = fields.gated = false;
  fields.norm = norm;
  return fields;
}

int64_t headDimOf(Config &config, std::string_view headsKey, int64_t heads, std::string_view hiddenKey,
                  int64_t hidden) {
  if (heads == 0 || hidden == 0)
    return 0;
  if (hidden % heads != 0)
    config.refuse(headsKey, fmt::format("does not divide {} = {}", hiddenKey, hidden),
                  fmt::format("possible {}: {}", headsKey, listOf(divisorsOf(hidden, kMaxHeads))));
  return std::max<int64_t>(1, hidden / heads);
}

void setParallel(BlockDescription &block) {
  block.parallel = true;
  block.mlpBranch.before.reset();
}

} // namespace mgc::frontend
