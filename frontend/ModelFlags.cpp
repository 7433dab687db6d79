// See ModelFlags.h.
#include "frontend/ModelFlags.h"

#include "runtime/base/Problems.h"

#include <algorithm>
#include <charconv>

namespace mgc::frontend {

namespace {

const BlockDescription &blockOf(const ModelDescription &model) { return model.kinds.front().block; }
const AttentionDescription &attentionOf(const ModelDescription &model) { return blockOf(model).attention; }

template <typename T> std::string text(const T &value) { return fmt::format("{}", value); }

std::vector<ModelFlag> makeFlags() {
  using Model = ModelDescription;
  const auto rope = [](const Model &m) { return attentionOf(m).rope; };
  const auto hiddenDropout = [](const Model &m) { // one number in Megatron-LM
    const double ofBranches = blockOf(m).residualDropout, ofEmbeddings = m.embeddingDropout;
    return ofBranches == ofEmbeddings ? text(ofBranches) : fmt::format("{} and {}", ofBranches, ofEmbeddings);
  };
  return {
      {"--num-layers", &KeyNames::layers, [](const Model &m) { return text(m.layerCount()); }},
      {"--hidden-size", &KeyNames::hidden, [](const Model &m) { return text(m.hidden); }},
      {"--num-attention-heads", &KeyNames::heads, [](const Model &m) { return text(attentionOf(m).heads); }},
      {"--num-query-groups", &KeyNames::groups, [](const Model &m) { return text(attentionOf(m).groups); }},
      {"--group-query-attention", &KeyNames::groups, // --num-query-groups says how many; as many as heads too
       [](const Model &) { return text(true); }, true},
      {"--kv-channels", "head_dim", [](const Model &m) { return text(attentionOf(m).headDim); }},
      {"--ffn-hidden-size", &KeyNames::ffn, [](const Model &m) { return text(blockOf(m).mlp.ffn); }},
      {"--max-position-embeddings", &KeyNames::positions,
       [](const Model &m) { return text(m.maxPositions); }},
      {"--vocab-size", "vocab_size", [](const Model &m) { return text(m.vocabulary); }},
      {"--norm-epsilon", &KeyNames::normEpsilon, [](const Model &m) { return text(m.finalNorm.epsilon); }},
      {"--normalization", "model_type",
       [](const Model &m) {
         return std::string(m.finalNorm.kind == NormKind::rms ? "RMSNorm" : "LayerNorm");
       }},
      {"--position-embedding-type", "model_type",
       [](const Model &m) { return std::string(m.learnedPositions ? "learned_absolute" : "rope"); }},
      {"--use-rotary-position-embeddings", "model_type",
       [=](const Model &m) { return text(rope(m).has_value()); }, true},
      {"--rotary-base", "rope_theta",
       [=](const Model &m) { return rope(m) ? text(rope(m)->theta) : "none"; }},
      {"--rotary-percent", "partial_rotary_factor",
       [=](const Model &m) { return std::string(rope(m) ? "1" : "none"); }},
      {"--untie-embeddings-and-output-weights", "tie_word_embeddings",
       [](const Model &m) { return text(!m.tiedHead); }, true},
      {"--swiglu", &KeyNames::activation,
       [](const Model &m) {
         return text(blockOf(m).mlp.gated && blockOf(m).mlp.activation == Activation::silu);
       },
       true},
      {"--openai-gelu", &KeyNames::activation,
       [](const Model &m) { return text(blockOf(m).mlp.activation == Activation::geluTanh); }, true},
      {"--add-qkv-bias", "attention_bias", [](const Model &m) { return text(attentionOf(m).qkvBias); }, true},
      {"--disable-bias-linear", "mlp_bias",
       [](const Model &m) { return text(!blockOf(m).mlp.bias && !attentionOf(m).outBias); }, true},
      {"--qk-layernorm", "model_type", [](const Model &m) { return text(attentionOf(m).qkNorm.has_value()); },
       true},
      {"--hidden-dropout", &KeyNames::hiddenDropout, hiddenDropout},
      {"--attention-dropout", &KeyNames::attentionDropout,
       [](const Model &m) { return text(attentionOf(m).dropout); }},
      {"--init-method-std", "initializer_range", [](const Model &m) { return text(m.initializerRange); }},
  };
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
    if (areEqual(one.value, found))
      continue;
    const std::string key = fact.key(model.names);
    const bool isInFile =
        model.text.find('"' + key + '"') != std::string::npos; // else it follows from others
    problems.add("{} {}: the model has {}{}", one.flag, one.value, found,
                 isInFile ? fmt::format(" ({})", key) : "");
    problems.hint("expected the same; the model comes from this file, so leave {} out{}", one.flag,
                  isInFile ? " or change the file" : "");
  }
  return problems.empty() ? Status::ok() : problems.status();
}

} // namespace mgc::frontend
