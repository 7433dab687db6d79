// See ModelFlagRows.h.
#include "model/LayerPattern.h"
#include "model/ModelFlagRows.h"

#include <algorithm>
#include <cmath>

namespace mgc::frontend {

namespace {

using Model = ModelDescription;

const AttentionDescription &attentionOf(const Model &model) { return model.kinds.front().block.attention; }

bool hasRope(const Model &model) { return attentionOf(model).rope.has_value(); }
bool isLatent(const Model &model) { return attentionOf(model).latent.has_value(); }
// Whether frequencies change so; a model without rope has no kind.
bool hasScaling(const Model &model, RopeKind kind) {
  return hasRope(model) && attentionOf(model).rope->scaling.kind == kind;
}

// Numbers that were computed, as they were written.
std::string rounded(double value) { return fmt::format("{:.6g}", value); }
std::string text(bool value) { return fmt::format("{}", value); }

// A flag of one kind of scaling, which is not read under another.
template <typename Fact> auto ofScaling(RopeKind kind, Fact fact) {
  return [=](const Model &model) -> std::string {
    return hasScaling(model, kind) ? rounded(fact(attentionOf(model))) : "";
  };
}

// DeepSeek's mscale m of yarn with a factor f stands in s = 0.1 m ln f + 1.
double mscaleOf(double s, double factor) { return factor > 1 ? (s - 1) / (0.1 * std::log(factor)) : 0; }
double mscaleOfScores(const AttentionDescription &attention) {
  const double square = attention.scale * std::sqrt(double(attention.headDim));
  return mscaleOf(std::sqrt(square), attention.rope->scaling.factor);
}
double mscaleOfRope(const AttentionDescription &attention) {
  const double ofScores = std::sqrt(attention.scale * std::sqrt(double(attention.headDim)));
  return mscaleOf(attention.rope->scale * ofScores, attention.rope->scaling.factor);
}

std::vector<bool> windowsOf(const Model &model) {
  std::vector<bool> layers;
  for (const int64_t kind : model.layers)
    layers.push_back(model.kinds[kind].block.attention.window > 0);
  return layers;
}
bool hasWindow(const Model &model) { return std::ranges::count(windowsOf(model), true) > 0; }
int64_t windowOf(const Model &model) {
  for (const BlockKind &kind : model.kinds)
    if (kind.block.attention.window > 0)
      return kind.block.attention.window;
  return 0;
}

// Megatron-LM's pair: keys to the left of a token, and to the right.
std::string windowSizeOf(const Model &model) {
  return hasWindow(model) ? fmt::format("{},0", windowOf(model) - 1) : "-1,-1";
}
std::string withoutBrackets(std::string_view pair) {
  std::string plain(pair);
  std::erase_if(plain, [](char c) { return c == '(' || c == ')' || c == ' '; });
  return plain;
}

std::string positionsOf(const Model &model) {
  const AttentionDescription &attention = attentionOf(model);
  if (model.embedding.learnedPositions)
    return "learned_absolute";
  if (!attention.slopes.empty())
    return "alibi";
  return std::string(attention.rope ? "rope" : attention.relativeBias ? "relative" : kNone);
}

std::vector<ModelFlag> ropeFlags() {
  return {
      {"--use-rotary-position-embeddings", "model_type", [](const Model &m) { return text(hasRope(m)); }, true},
      {"--rotary-base", "rope_theta",
       [](const Model &m) { return hasRope(m) ? fmt::format("{}", attentionOf(m).rope->theta) : ""; }},
      {"--rotary-percent", "partial_rotary_factor",
       [](const Model &m) -> std::string {
         const AttentionDescription &attention = attentionOf(m);
         const int64_t size = attention.latent ? attention.latent->rotaryDim : attention.headDim;
         return hasRope(m) ? fmt::format("{}", double(attention.rope->dim) / double(size)) : "";
       }},
      {"--rotary-interleaved", "rope_interleave", // latent attention pairs its dimensions by itself
       [](const Model &m) {
         return !hasRope(m) || isLatent(m) ? std::string() : text(attentionOf(m).rope->interleaved);
       },
       true},
      {"--rope-type", "rope_scaling", // read beside latent attention alone
       [](const Model &m) -> std::string { return hasScaling(m, RopeKind::yarn) ? "yarn" : "rope"; }},
      {"--use-rope-scaling", "rope_scaling", // not read beside latent attention
       [](const Model &m) { return isLatent(m) ? std::string() : text(hasScaling(m, RopeKind::llama3)); }, true},
      {"--rope-scaling-factor", "rope_scaling",
       ofScaling(RopeKind::llama3, [](const AttentionDescription &a) { return a.rope->scaling.factor; })},
      {"--rotary-seq-len-interpolation-factor", "rope_scaling",
       [](const Model &m) -> std::string {
         return hasScaling(m, RopeKind::linear) ? rounded(attentionOf(m).rope->scaling.factor) : hasRope(m) ? "1" : "";
       }},
      {"--rotary-scaling-factor", "rope_scaling",
       ofScaling(RopeKind::yarn, [](const AttentionDescription &a) { return a.rope->scaling.factor; })},
      {"--original-max-position-embeddings", "rope_scaling",
       ofScaling(RopeKind::yarn, [](const AttentionDescription &a) { return a.rope->scaling.originalPositions; })},
      {"--mscale", "rope_scaling", ofScaling(RopeKind::yarn, mscaleOfRope)},
      {"--mscale-all-dim", "rope_scaling", ofScaling(RopeKind::yarn, mscaleOfScores)},
  };
}

} // namespace

std::vector<ModelFlag> positionFlags() {
  std::vector<ModelFlag> flags = {
      {"--max-position-embeddings", &KeyNames::positions, // the size of a table, which rotary positions do without
       [](const Model &m) { return m.embedding.learnedPositions ? fmt::format("{}", m.maxPositions) : ""; }},
      {"--position-embedding-type", "model_type", positionsOf},
      {"--no-position-embedding", "model_type", [](const Model &m) { return text(!m.embedding.learnedPositions); },
       true},
      {.flag = "--window-size",
       .where = "sliding_window",
       .valueOf = windowSizeOf,
       .isSame = [](const Model &m, std::string_view given) { return withoutBrackets(given) == windowSizeOf(m); }},
      {.flag = "--window-attn-skip-freq",
       .where = "layer_types",
       .valueOf = [](const Model &m) { return hasWindow(m) ? patternOf(windowsOf(m)) : ""; },
       .isSame =
           [](const Model &m, std::string_view given) {
             const Result<std::vector<bool>> asked = layersWithWindow(given, m.layerCount());
             return asked.isOk() && *asked == windowsOf(m);
           }},
      {.flag = "--sliding-window",
       .where = "sliding_window",
       .valueOf = [](const Model &m) { return hasWindow(m) ? fmt::format("{}", windowOf(m)) : std::string(kNone); }},
      {"--softmax-type", "model_type",
       [](const Model &m) -> std::string { return attentionOf(m).sinks ? "learnable" : "vanilla"; }},
  };
  const std::vector<ModelFlag> ofRope = ropeFlags();
  flags.insert(flags.end(), ofRope.begin(), ofRope.end());
  return flags;
}

} // namespace mgc::frontend
