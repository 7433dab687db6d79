// See ModelOfLine.h.
#include "tools/translate/ModelOfLine.h"

#include "model/LayerPattern.h"
#include "model/Slopes.h"
#include "tools/translate/LineFacts.h"
#include "tools/translate/LineTokenizer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace mgc::tools {

namespace {

using Json = nlohmann::ordered_json;
using Layers = std::vector<bool>;

constexpr int64_t kGpt2Vocabulary = 50257;
constexpr std::string_view kDeepSpeedTopk = "--topk"; // one expert's weight is its score among all

// Layers as entries of "layers": one where they are from, from + every, .. to, else one for each run.
std::vector<Json> entriesOf(const Layers &layers) {
  std::vector<int64_t> all;
  for (int64_t layer = 0; layer < std::ssize(layers); ++layer)
    if (layers[layer])
      all.push_back(layer);
  const int64_t step = all.size() > 1 ? all[1] - all[0] : 1;
  const auto breaks = std::ranges::adjacent_find(all, [&](int64_t a, int64_t b) { return b - a != step; });
  if (breaks == all.end() && !all.empty())
    return {Json{{"from", all.front()}, {"to", all.back()}, {"every", step}}};
  std::vector<Json> entries;
  for (const int64_t layer : all)
    if (!entries.empty() && entries.back()["to"] == layer - 1)
      entries.back()["to"] = layer;
    else
      entries.push_back({{"from", layer}, {"to", layer}});
  return entries;
}

double yarnScale(double factor, double mscale) { return 0.1 * mscale * std::log(factor) + 1; }

class ModelWriter {
public:
  explicit ModelWriter(const MegatronLine &line) : line_(line), facts_(line) {}

  LineModel run() {
    writeSizes();
    if (!result_.problems.empty())
      return finish();
    writeNorms();
    isLatent() ? writeLatentHeads() : writeHeads();
    writeBiases();
    writePositions();
    writeMlp();
    writeExperts();
    writeWindows();
    put("/head/tied", !facts_.isOn("--untie-embeddings-and-output-weights"), {"--untie-embeddings-and-output-weights"});
    put("/initializer_range", facts_.number("--init-method-std").value_or(0.02), {"--init-method-std"});
    if (facts_.isOn("--no-scaled-init"))
      note("/scaled_residual_init", {"--no-scaled-init"});
    else
      put("/scaled_residual_init", true, {});
    writeLayers();
    return finish();
  }

private:
  const MegatronLine &line_;
  LineFacts facts_;
  LineModel result_;
  Json model_ = Json::object();
  std::vector<Json> entries_; // the list "layers"
  int64_t layers_ = 0, hidden_ = 0, heads_ = 0, ffn_ = 0, headDim_ = 0;

  LineModel finish() {
    result_.config = Json{{"model_type", "mgc"}, {"mgc", {{"model", model_}}}};
    result_.unusable = facts_.unusable(), result_.lacking = facts_.lacking(), result_.idle = facts_.idle();
    for (const auto &[flag, why] : result_.unusable)
      result_.places.emplace(flag, "");
    return std::move(result_);
  }

  // Sets a field, which these flags say.
  template <typename T> void put(const std::string &path, const T &value, const std::vector<std::string> &flags) {
    model_[Json::json_pointer(path)] = value;
    note(path, flags);
  }
  void note(std::string path, const std::vector<std::string> &flags) {
    std::ranges::replace(path, '/', '.');
    for (const std::string &flag : flags)
      if (facts_.has(flag) && !facts_.unusable().contains(facts_.nameOf(flag)))
        result_.places.emplace(facts_.nameOf(flag), path.substr(1));
  }

  // 0, and a problem, where the line does not say it.
  int64_t required(const std::string &flag) {
    const std::optional<int64_t> value = facts_.whole(flag);
    if (!value)
      result_.problems.push_back(flag + (facts_.has(flag) ? " has no value that can be used" : " is missing"));
    return value.value_or(0);
  }
  void assume(const std::string &text) { result_.assumed.push_back(text); }

  void writeSizes() {
    layers_ = required("--num-layers"), hidden_ = required("--hidden-size"), heads_ = required("--num-attention-heads");
    if (!result_.problems.empty())
      return;
    writeVocabulary();
    put("/hidden", hidden_, {"--hidden-size"});
    put("/positions", positions(), {"--max-position-embeddings"});
    put("/layer_count", layers_, {"--num-layers"});
  }

  // A table has as many rows as the flag says; without one the number only bounds a sequence.
  int64_t positions() {
    const std::optional<int64_t> asked = facts_.whole("--max-position-embeddings");
    if (asked && positionType() == "learned_absolute")
      return *asked;
    int64_t most = asked.value_or(1);
    for (const char *length : {"--seq-length", "--decoder-seq-length"})
      most = std::max(most, facts_.whole(length).value_or(1));
    if (!asked && most == 1)
      assume("positions: 1024, for the line says neither --max-position-embeddings nor --seq-length");
    return !asked && most == 1 ? 1024 : most;
  }

  // Megatron-LM pads the tokenizer's vocabulary; a padded one is taken as it is.
  void writeVocabulary() {
    if (const std::optional<int64_t> size = facts_.whole("--vocab-size");
        size && isNullTokenizer(line_) && !facts_.has("--padded-vocab-size") && !facts_.has("--pad-vocab-size-to"))
      return put("/vocabulary", *size + 1, {"--vocab-size"});
    for (const char *flag : {"--padded-vocab-size", "--pad-vocab-size-to", "--vocab-size"})
      if (const std::optional<int64_t> size = facts_.whole(flag))
        return put("/vocabulary", *size, {flag});
    const std::unique_ptr<Tokenizer> tokenizer = tokenizerOf(line_);
    const int64_t more = facts_.whole("--extra-vocab-size", 0).value_or(0);
    if (tokenizer)
      return put("/vocabulary", tokenizer->vocabulary() + more, {"--extra-vocab-size"});
    put("/vocabulary", kGpt2Vocabulary + more, {"--extra-vocab-size"});
    assume(fmt::format(
        "vocabulary: {}, GPT-2's{}; the tokenizer is not there to be asked: --vocab-size N on the line says it",
        kGpt2Vocabulary, more > 0 ? fmt::format(", and {} more", more) : ""));
  }
  Json norm() {
    std::string kind = facts_.word("--normalization").value_or("LayerNorm");
    std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
    if (kind != "rmsnorm" && kind != "layernorm")
      facts_.refuse("--normalization", fmt::format("found '{}', expected LayerNorm or RMSNorm", kind));
    const bool isRms = kind == "rmsnorm";
    Json norm{{"kind", isRms ? "rms" : "layer"}, {"epsilon", facts_.number("--norm-epsilon").value_or(1e-5)}};
    if (!isRms)
      norm["bias"] = true;
    if (facts_.isOn("--apply-layernorm-1p"))
      norm["offset"] = 1;
    return norm;
  }
  void writeNorms() {
    const double dropout = facts_.number("--hidden-dropout").value_or(0.1);
    for (const char *branch : {"/layer/attention_branch", "/layer/mlp_branch"}) {
      put(branch + std::string("/before"), norm(), {"--normalization", "--norm-epsilon", "--apply-layernorm-1p"});
      put(branch + std::string("/dropout"), dropout, {"--hidden-dropout"});
    }
    put("/embedding/dropout", dropout, {});
    put("/final_norm", norm(), {});
    if (facts_.isOn("--embed-layernorm"))
      put("/embedding/norm", norm(), {"--embed-layernorm"});
  }

  bool isLatent() { return facts_.isOn("--multi-latent-attention"); }
  void writeHeads() {
    const std::string attention = "/layer/attention";
    const bool isGrouped =
        facts_.isOn("--group-query-attention") || facts_.nameOf("--num-query-groups") == "--num-key-value-heads";
    put(attention + "/heads", heads_, {"--num-attention-heads"});
    if (!isGrouped && facts_.has("--num-query-groups"))
      facts_.ignore("--num-query-groups", "is read with --group-query-attention, which is not there");
    put(attention + "/groups", isGrouped ? facts_.whole("--num-query-groups").value_or(1) : heads_,
        {"--num-query-groups", "--group-query-attention"});
    headDim_ = facts_.whole("--kv-channels").value_or(hidden_ / heads_);
    put(attention + "/head_dim", headDim_, {"--kv-channels"});
    if (!facts_.has("--kv-channels") && hidden_ % heads_ != 0)
      result_.problems.push_back(
          fmt::format("--num-attention-heads {} does not divide --hidden-size {}", heads_, hidden_));
    put(attention + "/dropout", facts_.number("--attention-dropout").value_or(0.1), {"--attention-dropout"});
    if (facts_.isOn("--qk-layernorm"))
      put(attention + "/qk_norm/norm", norm(), {"--qk-layernorm"});
  }
  void writeLatentHeads() {
    const std::string attention = "/layer/attention";
    const int64_t turning = facts_.whole("--qk-pos-emb-head-dim").value_or(64);
    headDim_ = facts_.whole("--qk-head-dim").value_or(128) + turning;
    put(attention + "/heads", heads_, {"--num-attention-heads"});
    put(attention + "/groups", heads_, {});
    put(attention + "/head_dim", headDim_, {"--qk-head-dim"});
    put(attention + "/latent/query_rank", facts_.whole("--q-lora-rank").value_or(0), {"--q-lora-rank"});
    put(attention + "/latent/key_rank", facts_.whole("--kv-lora-rank").value_or(32),
        {"--kv-lora-rank", "--multi-latent-attention"});
    put(attention + "/latent/rotary_dim", turning, {"--qk-pos-emb-head-dim"});
    put(attention + "/latent/value_dim", facts_.whole("--v-head-dim").value_or(128), {"--v-head-dim"});
    put(attention + "/latent/norm", norm(), {"--qk-layernorm"});
    if (!facts_.isOn("--qk-layernorm"))
      facts_.lack("--multi-latent-attention",
                  "latents are normed here, as with --qk-layernorm, which the line lacks: Megatron-LM's model has no "
                  "such norms");
    put(attention + "/dropout", facts_.number("--attention-dropout").value_or(0.1), {"--attention-dropout"});
    const bool isYarn = facts_.word("--rope-type").value_or("yarn") == "yarn";
    writeRope();
    put(attention + "/rope/interleaved", true, {});
    if (isYarn)
      writeYarn();
  }

  void writeBiases() {
    const bool isBiased = hasBiases();
    put("/layer/attention/qkv_bias", isBiased || facts_.isOn("--add-qkv-bias"), {"--add-qkv-bias"});
    put("/layer/attention/out_bias", isBiased, {});
    put("/layer/mlp/bias", isBiased, {"--disable-bias-linear"});
  }
  bool hasBiases() { return !facts_.isOn("--disable-bias-linear"); }

  std::string positionType() {
    const bool isRotary = facts_.isOn("--use-rotary-position-embeddings") || isLatent();
    return isRotary ? "rope" : facts_.word("--position-embedding-type").value_or("learned_absolute");
  }
  void writePositions() {
    const std::vector<std::string> flags = {"--position-embedding-type", "--use-rotary-position-embeddings"};
    const std::string type = positionType();
    if (facts_.word("--softmax-type").value_or("vanilla") == "learnable")
      put("/layer/attention/sinks", true, {"--softmax-type"});
    if (isLatent())
      return;
    if (type == "rope") {
      writeRope();
      note("/layer/attention/rope", flags);
    } else if (type == "alibi") {
      put("/layer/attention/slopes", frontend::slopesOf(heads_), flags);
    } else if (type == "learned_absolute") {
      put("/embedding/learned_positions", true, flags);
    } else if (type != "none") {
      result_.problems.push_back(fmt::format(
          "--position-embedding-type {}: expected learned_absolute, rope, alibi or none; others need a config.json",
          type));
    }
  }
  void writeRope() {
    const std::string rope = "/layer/attention/rope";
    put(rope + "/theta", facts_.number("--rotary-base", 1).value_or(10000), {"--rotary-base"});
    const double part = facts_.number("--rotary-percent").value_or(1);
    if (part < 1 && isLatent())
      facts_.lack("--rotary-percent", "latent heads turn all of --qk-pos-emb-head-dim here");
    else if (part < 1)
      put(rope + "/dim", int64_t(double(headDim_) * part), {"--rotary-percent"});
    if (facts_.isOn("--rotary-interleaved") && !isLatent())
      put(rope + "/interleaved", true, {"--rotary-interleaved"});
    const bool isOfLlama = facts_.isOn("--use-rope-scaling") && !isLatent();
    const auto factor = facts_.number("--rotary-seq-len-interpolation-factor", 1);
    if (factor && *factor > 1 && isOfLlama)
      facts_.lack("--rotary-seq-len-interpolation-factor", "is left out beside --use-rope-scaling: positions have one "
                                                           "scaling here");
    else if (factor && *factor > 1)
      put(rope + "/scaling", Json{{"kind", "linear"}, {"factor", *factor}}, {"--rotary-seq-len-interpolation-factor"});
    if (!isOfLlama)
      return;
    put(rope + "/scaling",
        Json{{"kind", "llama3"},
             {"factor", facts_.number("--rope-scaling-factor", 1).value_or(8)},
             {"low_frequency_factor", 1},
             {"high_frequency_factor", 4},
             {"original_positions", 8192}},
        {"--use-rope-scaling", "--rope-scaling-factor"});
  }
  void writeYarn() {
    const std::string attention = "/layer/attention";
    const double factor = facts_.number("--rotary-scaling-factor", 1).value_or(1),
                 ofScores = yarnScale(factor, facts_.number("--mscale-all-dim").value_or(0)),
                 ofRope = yarnScale(factor, facts_.number("--mscale").value_or(1));
    const int64_t original = facts_.whole("--original-max-position-embeddings").value_or(4096);
    put(attention + "/rope/scaling", Json{{"kind", "yarn"}, {"factor", factor}, {"original_positions", original}},
        {"--rope-type", "--rotary-scaling-factor", "--original-max-position-embeddings"});
    put(attention + "/rope/scale", ofRope / ofScores, {"--mscale"});
    put(attention + "/scale", ofScores * ofScores / std::sqrt(double(headDim_)), {"--mscale-all-dim"});
  }

  // With biases Megatron-LM's GELU is the fused kernel's, which is that of tanh.
  std::string activation() {
    if (facts_.isOn("--swiglu"))
      return "silu";
    if (facts_.isOn("--quick-geglu"))
      return "quick_gelu";
    if (facts_.isOn("--squared-relu"))
      return "relu2";
    const bool isFused = hasBiases() && !facts_.isOn("--no-bias-gelu-fusion");
    return isFused || facts_.isOn("--openai-gelu") ? "gelu_pytorch_tanh" : "gelu";
  }
  void writeMlp() {
    const std::string mlp = "/layer/mlp";
    const bool isGated = facts_.isOn("--swiglu") || facts_.isOn("--quick-geglu");
    // A gated one has two thirds of the width, so that its parameters are as many, in multiples of 64.
    const int64_t derived = facts_.isOn("--swiglu") ? 4 * hidden_ * 2 / 3 / 64 * 64 : 4 * hidden_;
    ffn_ = facts_.whole("--ffn-hidden-size").value_or(std::max<int64_t>(1, derived));
    put(mlp + "/ffn", ffn_, {"--ffn-hidden-size"});
    put(mlp + "/gated", isGated, {"--swiglu", "--quick-geglu"});
    put(mlp + "/activation", activation(),
        {"--swiglu", "--quick-geglu", "--squared-relu", "--openai-gelu", "--no-bias-gelu-fusion"});
    if (!isGated)
      return;
    const double offset = facts_.number("--glu-linear-offset").value_or(0);
    if (offset != 0 && offset != 1)
      facts_.refuse("--glu-linear-offset", fmt::format("found {}, possible: 0, 1", offset));
    if (offset == 1)
      put(mlp + "/up_plus_one", true, {"--glu-linear-offset"});
    if (const auto limit = facts_.number("--activation-func-clamp-value"))
      put(mlp + "/limit", *limit, {"--activation-func-clamp-value"});
  }

  // Megatron-DeepSpeed's default is one expert, which is no layer of experts.
  bool isDense() {
    const bool isDense = std::ranges::none_of(
        std::array{"--moe-ffn-hidden-size", "--moe-shared-expert-intermediate-size", "--moe-router-score-function"},
        [&](const char *flag) { return facts_.has(flag); });
    if (isDense && facts_.nameOf("--moe-router-topk") == kDeepSpeedTopk)
      facts_.ignore("--moe-router-topk", "one expert is none, as in Megatron-DeepSpeed");
    if (isDense)
      facts_.ignore("--num-experts", "one expert is none, as in Megatron-DeepSpeed");
    return isDense;
  }

  // The fields that a layer with experts has over the others; null: there are none.
  Json experts() {
    const std::optional<int64_t> count = facts_.whole("--num-experts");
    if (!count || (*count == 1 && isDense()))
      return nullptr;
    const int64_t chosen = facts_.whole("--moe-router-topk").value_or(2);
    Json experts{{"count", *count}, {"chosen", chosen}};
    writeScores(experts, chosen);
    if (const int64_t groups = facts_.whole("--moe-router-num-groups").value_or(1); groups > 1) {
      const int64_t kept = facts_.whole("--moe-router-group-topk").value_or(groups);
      experts["groups"] = groups, experts["kept_groups"] = kept;
      experts["group_top"] = std::max<int64_t>(1, chosen / kept);
    }
    if (const auto factor = facts_.number("--moe-router-topk-scaling-factor"))
      experts["scale"] = *factor;
    if (const auto shared = facts_.whole("--moe-shared-expert-intermediate-size"))
      experts["shared"] = Json{{"ffn", *shared}, {"gated", facts_.isOn("--moe-shared-expert-gate")}};
    return experts;
  }
  // Softmax of the chosen logits is softmax of all, divided by the sum of those chosen.
  void writeScores(Json &experts, int64_t chosen) {
    const std::string score = facts_.word("--moe-router-score-function").value_or("softmax");
    if (score != "softmax" && score != "sigmoid")
      facts_.refuse("--moe-router-score-function", fmt::format("found '{}', possible: softmax, sigmoid", score));
    const bool isSigmoid = score == "sigmoid";
    experts["score"] = isSigmoid ? "sigmoid" : "softmax";
    const bool isOfDeepSpeed = facts_.nameOf("--moe-router-topk") == kDeepSpeedTopk;
    const bool isOfAll = facts_.isOn("--moe-router-pre-softmax") || (isOfDeepSpeed && chosen == 1);
    if (isSigmoid ? chosen > 1 : !isOfAll)
      experts["normalised"] = isSigmoid ? 1e-20 : 0;
    if (facts_.isOn("--moe-router-enable-expert-bias"))
      experts["choice_bias"] = true;
  }
  void writeExperts() {
    const Json experts = this->experts();
    if (experts.is_null())
      return;
    Json more{{"experts", experts}};
    if (const auto ffn = facts_.whole("--moe-ffn-hidden-size"))
      more["mlp"] = Json{{"ffn", *ffn}};
    addToLayers(more, patternOf("--moe-layer-freq", frontend::layersWithExperts));
    note("/layer/experts",
         {"--num-experts", "--moe-router-topk", "--moe-router-num-groups", "--moe-router-group-topk",
          "--moe-router-topk-scaling-factor", "--moe-router-score-function", "--moe-router-pre-softmax",
          "--moe-router-enable-expert-bias", "--moe-shared-expert-intermediate-size", "--moe-shared-expert-gate"});
    note("/layer/mlp/ffn", {"--moe-ffn-hidden-size"});
    note("/layers", {"--moe-layer-freq"});
  }

  void writeWindows() {
    const std::optional<int64_t> left = windowOnTheLeft();
    const std::optional<int64_t> window = left ? std::optional(*left + 1) : facts_.whole("--sliding-window");
    if (!window || *window < 1)
      return;
    addToLayers(Json{{"attention", {{"window", *window}}}},
                patternOf("--window-attn-skip-freq", frontend::layersWithWindow));
    note("/layer/attention/window", {"--window-size", "--sliding-window"});
    note("/layers", {"--window-attn-skip-freq"});
  }
  // Keys to the left of a token, of a pair "127,0".
  std::optional<int64_t> windowOnTheLeft() {
    std::optional<std::string> pair = facts_.word("--window-size");
    if (!pair)
      return std::nullopt;
    int64_t left = 0, right = 0;
    std::erase_if(*pair, [](char c) { return c == '(' || c == ')' || c == ' '; });
    const char *end = pair->data() + pair->size();
    auto [comma, error] = std::from_chars(pair->data(), end, left);
    const bool isPair = error == std::errc() && comma != end && *comma == ',' &&
                        std::from_chars(comma + 1, end, right).ptr == end && left >= -1 && left < (1 << 30);
    if (!isPair)
      facts_.refuse("--window-size", fmt::format("found '{}', expected keys to the left and 0, as 127,0", *pair));
    return isPair ? std::optional(left) : std::nullopt;
  }

  // All layers, where the line does not say which.
  Layers patternOf(const std::string &flag, Result<Layers> (*read)(std::string_view text, int64_t layers)) {
    Layers all(static_cast<size_t>(std::min<int64_t>(layers_, 1 << 12)), true);
    const std::optional<std::string> text = facts_.word(flag);
    if (!text)
      return all;
    Result<Layers> layers = read(*text, std::ssize(all));
    if (!layers.isOk())
      facts_.refuse(flag, layers.status().message());
    return layers.isOk() ? layers.take() : all;
  }
  void addToLayers(const Json &fields, const Layers &layers) {
    if (std::ranges::count(layers, false) == 0)
      return model_["layer"].merge_patch(fields);
    for (Json entry : entriesOf(layers)) {
      entry.update(fields);
      entries_.push_back(std::move(entry));
    }
  }
  void writeLayers() {
    if (!entries_.empty())
      model_["layers"] = entries_;
  }
};

} // namespace

LineModel modelOf(const MegatronLine &line) { return ModelWriter(line).run(); }

} // namespace mgc::tools
