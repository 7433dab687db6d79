#include "model/Overrides.h"

#include "model/Vocabulary.h"

#include <cmath>

namespace mgc::frontend {

namespace {

constexpr std::string_view kUnknown = "docs/model-vocabulary.md has its fields";

template <typename T> constexpr bool isOptional = false;
template <typename T> constexpr bool isOptional<std::optional<T>> = true;

// Reads the fields that a JSON object has; the others stay as they are.
class Overrider {
public:
  explicit Overrider(Config &config) : config_(config) {}

  template <typename T> void read(T &value) {
    target_ = &value;
    fields(*this, Of<T>());
  }

  template <typename T, typename M> void operator()(const Field &field, M T::*member) {
    if (config_.has(field.key))
      set(field, static_cast<T *>(target_)->*member);
    config_.ignore(std::array{field.key});
  }

private:
  template <typename M> void set(const Field &field, M &value) {
    if constexpr (isOptional<M>) {
      if (!config_.isSet(field.key))
        value.reset();
      else
        set(field, value ? *value : value.emplace());
    } else if (!config_.isSet(field.key)) {
      config_.refuse(field.key, "is no value of this field", "leave it out for what the family says");
    } else {
      setValue(field, value);
    }
  }

  void setValue(const Field &field, int64_t &value) {
    value = config_.integer(field.key, int64_t(field.least), int64_t(field.most)).value_or(value);
  }
  void setValue(const Field &field, double &value) {
    value = config_.number(field.key, value, field.least, field.most);
  }
  void setValue(const Field &field, bool &value) { value = config_.flag(field.key, value); }
  void setValue(const Field &field, std::string &value) {
    std::vector<std::pair<std::string_view, std::string_view>> words;
    for (std::string_view word : field.words)
      words.emplace_back(word, word);
    value = config_.choice<std::string_view>(field.key, "", words);
  }
  void setValue(const Field &field, std::vector<double> &value) {
    value = config_.numbers(field.key, field.least, field.most);
  }
  template <typename E>
    requires std::is_enum_v<E>
  void setValue(const Field &field, E &value) {
    value = config_.choice<E>(field.key, "", wordsOf(Of<E>()));
  }
  template <typename T>
    requires std::is_class_v<T>
  void setValue(const Field &field, T &value) {
    if (std::optional<Config> child = config_.child(field.key)) {
      Overrider(*child).read(value);
      child->finish("this part of a description", kUnknown, /*ofNull=*/true);
    }
  }

  Config &config_;
  void *target_ = nullptr;
};

// Reads the object over each of the layers; what is wrong is said once.
void readOver(Config &config, std::vector<BlockDescription> &layers, int64_t first, int64_t last, int64_t step) {
  const size_t before = config.report().count();
  for (int64_t layer = first; layer <= last && config.report().count() == before; layer += step)
    Overrider(config).read(layers[layer]);
  config.finish("a layer", kUnknown, /*ofNull=*/true);
}

// `layer`, and each entry of `layers` with the layers that it names.
void readLayers(Config &config, std::vector<BlockDescription> &layers) {
  constexpr size_t kMostEntries = 64; // each may be of every layer
  const auto count = static_cast<int64_t>(layers.size());
  if (count == 0 && (config.isSet("layer") || config.isSet("layers")))
    return config.report().add("mgc.model: layer_count is missing, but required");
  if (std::optional<Config> layer = config.child("layer"))
    readOver(*layer, layers, 0, count - 1, 1);
  std::vector<Config> entries = config.children("layers");
  if (entries.size() > kMostEntries)
    return config.report().add("mgc.model.layers has {} entries; expected at most {}", entries.size(), kMostEntries);
  for (Config &entry : entries) {
    const int64_t first = entry.countOr("from", 0, count - 1), last = entry.countOr("to", count - 1, count - 1);
    if (first > last)
      entry.refuse("from", fmt::format("is behind to = {}", last), "expected from <= to");
    else
      readOver(entry, layers, first, last, std::max<int64_t>(1, entry.sizeOr("every", 1, kMaxLayers)));
  }
}

NamedTensors readTensors(Config &config) {
  NamedTensors tensors;
  if (std::optional<Config> named = config.child("tensors"))
    tensors = named->allWords();
  return tensors;
}

} // namespace

NamedTensors readOverrides(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  Overrider(config).read(model);
  if (const std::optional<int64_t> count = config.integer("layer_count", 1, kMaxLayers))
    layers.resize(*count, layers.empty() ? BlockDescription() : layers.back());
  readLayers(config, layers);
  NamedTensors tensors = readTensors(config);
  config.finish("a description", kUnknown, /*ofNull=*/true);
  return tensors;
}

static void complete(AttentionDescription &attention) {
  if (attention.scale == 0 && attention.headDim > 0)
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.headDim));
  if (attention.rope && attention.rope->dim == 0)
    attention.rope->dim = attention.latent ? attention.latent->rotaryDim : attention.headDim;
}

void complete(ModelDescription &model, std::vector<BlockDescription> &layers) {
  for (BlockDescription &block : layers) {
    complete(block.attention);
    if (block.cross)
      complete(*block.cross);
  }
  if (model.encoder)
    complete(model.encoder->layer.attention);
}

namespace {

constexpr double kLeastBound = 1e-6; // least value of a divisor

class DescriptionChecks {
public:
  DescriptionChecks(const std::string &where, Problems &problems) : where_(where), problems_(problems) {}

  void check(const BlockDescription &block) {
    check(block.attention);
    check("attention_branch", block.attentionBranch);
    check("cross_branch", block.crossBranch);
    check("mlp_branch", block.mlpBranch);
    expectBound("mlp.limit", block.mlp.limit);
    if (block.cross)
      checkCross(*block.cross);
    expect(!block.cross || !block.parallel, "cross in a parallel layer; expected a serial one");
    if (block.experts)
      check(*block.experts);
    expect(!block.experts || block.mlp.dropout == 0, "mlp.dropout with experts");
    expect(!block.experts || block.mlp.gated, "experts without a gate; expected mlp.gated: true");
    expect(block.mlp.ffn > 0, "mlp.ffn = 0; expected the width of the mlp");
    expect(block.mlp.gated || (block.mlp.limit == 0 && !block.mlp.upPlusOne),
           "mlp.limit or mlp.up_plus_one of an mlp without a gate");
    expect(!block.parallel || (!block.attentionBranch.sum && !block.mlpBranch.sum),
           "norms of sums in a parallel layer, which has one sum");
  }

  void check(std::string_view name, const std::optional<Norm> &norm) {
    expect(!norm || norm->kind == NormKind::layer || !norm->bias,
           "{}.bias: true with kind rms; expected false, or kind layer", name);
    expect(!norm || norm->weight || norm->offset == 0, "{}.offset = {} with weight: false; expected 0, or weight: true",
           name, norm ? norm->offset : 0);
  }
  // 0: there is none.
  void expectBound(std::string_view name, double bound) {
    expect(bound == 0 || bound >= kLeastBound, "{} = {}; expected 0, or {} or more", name, bound, kLeastBound);
  }

private:
  void check(std::string_view name, const BranchDescription &branch) {
    check(fmt::format("{}.before", name), branch.before);
    check(fmt::format("{}.after", name), branch.after);
    check(fmt::format("{}.sum", name), branch.sum);
  }

  void check(const AttentionDescription &attention) {
    expectBound("attention.softcap", attention.softcap);
    expectBound("attention.clip", attention.clip);
    if (attention.qkNorm)
      check(*attention.qkNorm);
    expect(!attention.gated || attention.valueDim() == attention.headDim,
           "attention.gated with latent.value_dim = {}; expected head_dim = {}", attention.valueDim(),
           attention.headDim);
    expect(attention.heads > 0 && attention.groups > 0 && attention.headDim > 0,
           "attention without heads, groups or head_dim");
    expect(attention.groups == 0 || attention.heads % attention.groups == 0,
           "attention.groups = {} does not divide heads = {}", attention.groups, attention.heads);
    expect(attention.slopes.empty() || int64_t(attention.slopes.size()) == attention.heads,
           "attention.slopes has {} numbers; expected one for each of heads = {}", attention.slopes.size(),
           attention.heads);
    if (attention.relativeBias)
      check(*attention.relativeBias, attention.causal);
    if (attention.rope)
      check(*attention.rope, attention.latent ? attention.latent->rotaryDim : attention.headDim);
    if (!attention.latent)
      return;
    expect(attention.groups == attention.heads, "attention.latent with groups = {}; expected heads = {}",
           attention.groups, attention.heads);
    expect(attention.rope.has_value(), "attention.latent without rope, which its rotary_dim is for");
    expect(!attention.rope || attention.rope->queryGrowth == 0, "attention.latent with rope.query_growth");
    expect(!attention.rope || attention.rope->dim == attention.latent->rotaryDim,
           "attention.rope.dim = {} with latent.rotary_dim = {}; expected the same, or 0",
           attention.rope ? attention.rope->dim : 0, attention.latent->rotaryDim);
    check("attention.latent.norm", attention.latent->norm);
    expect(attention.latent->rotaryDim % 2 == 0 && attention.latent->rotaryDim < attention.headDim,
           "attention.latent.rotary_dim = {} of head_dim = {}; expected an even number below it",
           attention.latent->rotaryDim, attention.headDim);
    expect(!attention.qkNorm && attention.clip == 0, "attention.latent with qk_norm or clip");
  }

  // Weights of their own for each head are multiplied apart from the norm.
  void check(const HeadNorms &norms) {
    check("attention.qk_norm.norm", norms.norm);
    expect(norms.span != NormSpan::allHeads || norms.norm.kind == NormKind::rms,
           "attention.qk_norm of all_heads and kind {}; expected rms", wordOf(norms.norm.kind));
    expect(norms.span == NormSpan::head || norms.norm.offset == 0, "attention.qk_norm of {} with an offset; expected 0",
           wordOf(norms.span));
  }

  void check(const RelativeBias &bias, bool causal) {
    const Status found = plan::verifyBuckets(bias.buckets, bias.maxDistance, causal);
    expect(found.isOk(), "attention.relative_bias: {}", found.message());
  }

  void check(const RopeScaling &scaling, double theta) {
    const bool hasContext = scaling.kind != RopeKind::none && scaling.kind != RopeKind::linear;
    expect(!hasContext || scaling.originalPositions >= 1,
           "rope.scaling.original_positions = {} of {}; expected 1 or more", scaling.originalPositions,
           wordOf(scaling.kind));
    expect(scaling.kind != RopeKind::llama3 || scaling.lowFrequencyFactor < scaling.highFrequencyFactor,
           "rope.scaling.low_frequency_factor = {} is not below high_frequency_factor = {}", scaling.lowFrequencyFactor,
           scaling.highFrequencyFactor);
    expect(scaling.kind != RopeKind::yarn || theta > 1, "rope.theta = {} of yarn; expected more than 1", theta);
  }

  // Keys are of another sequence: no distance to them, and no masks but its end, means anything.
  void checkCross(const AttentionDescription &cross) {
    expect(!cross.causal, "cross.causal: true; expected false, the encoder's sequence is whole");
    expect(!cross.rope && cross.slopes.empty() && !cross.relativeBias && cross.window == 0 && !cross.latent,
           "cross with rope, slopes, relative_bias, window or latent; expected none of them");
    check(cross);
  }

  void check(const Rope &rope, int64_t size) {
    check(rope.scaling, rope.theta);
    const double context = rope.scaling.originalPositions;
    expect(rope.queryGrowth == 0 || (rope.dim == size && context >= 1 && context == std::floor(context)),
           "rope.query_growth with rope.dim = {} of a head of {} and scaling.original_positions = {}; "
           "expected that all of a head rotates, and a whole number of positions, 1 or more",
           rope.dim, size, rope.scaling.originalPositions);
    expect(rope.scaling.kind != RopeKind::dynamic || rope.dim > 2, "rope.dim = {} of dynamic; expected 4 or more",
           rope.dim);
    expect(rope.dim > 0 && rope.dim % 2 == 0 && rope.dim <= size,
           "rope.dim = {} of a head of {}; expected an even number up to that", rope.dim, size);
    const size_t pairs = rope.scaling.kind == RopeKind::longrope ? size_t(rope.dim / 2) : 0;
    for (const std::vector<double> *factors : {&rope.scaling.shortFactors, &rope.scaling.longFactors})
      expect(factors->size() == pairs, "{} factors of longrope; expected {}", factors->size(), pairs);
  }

  void check(const Experts &experts) {
    expect(experts.count > 0 && experts.chosen > 0 && experts.chosen <= experts.count,
           "experts.chosen = {} of count = {}", experts.chosen, experts.count);
    expect(experts.groups > 0 && experts.count % experts.groups == 0, "experts.groups = {} does not divide count = {}",
           experts.groups, experts.count);
    expect(!experts.shared || experts.shared->ffn > 0, "experts.shared.ffn = 0; expected its width");
    const int64_t size = experts.groups > 0 ? experts.count / experts.groups : 0;
    expect(experts.keptGroups * size >= experts.chosen,
           "experts.kept_groups = {} of {} experts each; expected room for chosen = {}", experts.keptGroups, size,
           experts.chosen);
    expect(experts.groupTop <= std::max<int64_t>(size, 1), "experts.group_top = {} of groups of {}", experts.groupTop,
           size);
    expect(experts.keptGroups <= experts.groups, "experts.kept_groups = {} of groups = {}", experts.keptGroups,
           experts.groups);
  }

  template <typename... Args> void expect(bool isRight, fmt::format_string<Args...> text, Args &&...args) {
    if (!isRight)
      problems_.add("{}{}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

  std::string where_;
  Problems &problems_;
};

} // namespace

static bool hasCross(const BlockDescription &layer) { return layer.cross.has_value(); }

// An encoder of images takes the places of tokens, one of tokens is attended to.
static void checkMeeting(const ModelDescription &model, const std::vector<BlockDescription> &layers,
                         Problems &problems) {
  const EncoderDescription &encoder = *model.encoder;
  if (encoder.patches.has_value() != encoder.imageTokens.has_value())
    problems.add("encoder.patches without encoder.image_tokens, or the other way; expected both or none");
  if (encoder.embedding.types > 0)
    problems.add("encoder.embedding.types = {}; expected 0: data have types of the decoder's tokens alone",
                 encoder.embedding.types);
  if (!encoder.patches && encoder.embedding.width != model.embedding.width)
    problems.add(
        "encoder.embedding.width = {} and embedding.width = {}; expected the same: both read one table of tokens",
        encoder.embedding.width, model.embedding.width);
  if (model.attendsToEncoder()) {
    if (!std::ranges::all_of(layers, hasCross))
      problems.add("an encoder, and layers without cross; expected cross in each layer");
    if (encoder.projector || model.encoderHidden() != model.hidden)
      problems.add("encoder.projector or encoder.hidden of an encoder that layers attend to; expected neither");
    return;
  }
  if (std::ranges::any_of(layers, hasCross))
    problems.add("layers with cross, and encoder.image_tokens; expected one of them");
  if (!encoder.projector && model.encoderHidden() != model.hidden)
    problems.add("encoder.hidden = {} without a projector; expected that of the decoder, {}", encoder.hidden,
                 model.hidden);
  if (model.embedding.width > 0)
    problems.add(
        "embedding.width = {} with encoder.image_tokens; expected 0: features of images, which have the hidden "
        "size, stand in the place of embeddings",
        model.embedding.width);
  if (encoder.projector && encoder.projector->ffn < 1)
    problems.add("encoder.projector.ffn is missing; expected what its first product makes");
  if (encoder.imageTokens->token >= model.vocabulary)
    problems.add("encoder.image_tokens.token = {} is not below vocabulary = {}", encoder.imageTokens->token,
                 model.vocabulary);
  if (const std::optional<Patches> &patches = encoder.patches) {
    if (patches->size < 1 || patches->rows < 1 || patches->columns < 1)
      problems.add("encoder.patches without size, rows or columns");
    if (patches->bias && patches->classToken)
      problems.add("encoder.patches with bias and class_token; expected one of them");
    if (encoder.imageTokens->first >= patches->positions())
      problems.add("encoder.image_tokens.first = {} of {} positions", encoder.imageTokens->first, patches->positions());
  }
  if (encoder.embedding.width > 0 || encoder.embedding.scale != 1)
    problems.add("encoder.embedding with width or scale, which patches have not");
}

static void checkEncoder(const ModelDescription &model, const std::vector<BlockDescription> &layers,
                         Problems &problems) {
  const bool isSeen = std::ranges::any_of(layers, hasCross);
  if (!model.encoder) {
    if (isSeen)
      problems.add("layers with cross, and no encoder that they could attend to");
    return;
  }
  checkMeeting(model, layers, problems);
  if (model.encoder->layerCount < 1)
    problems.add("encoder.layer_count is missing; expected how many layers it has");
  if (model.encoder->layer.experts || model.encoder->layer.cross)
    problems.add("encoder.layer with experts or cross; expected an mlp and attention to its own sequence");
  if (model.encoder->layer.attention.causal)
    problems.add("encoder.layer.attention.causal: true; expected false: it sees its whole sequence");
  if (std::ranges::any_of(layers, [](const BlockDescription &layer) { return layer.experts.has_value(); }))
    problems.add("experts in layers behind an encoder are not supported");
  if (model.objective != Objective::causal)
    problems.add("objective {} with an encoder; expected causal: the decoder predicts the next token",
                 wordOf(model.objective));
  DescriptionChecks checks("encoder: ", problems);
  checks.check(model.encoder->layer);
  checks.check("embedding.norm", model.encoder->embedding.norm);
  checks.check("final_norm", model.encoder->finalNorm);
}

void checkDescription(const ModelDescription &model, const std::vector<BlockDescription> &layers, Problems &problems) {
  if (model.vocabulary == 0 || model.hidden == 0 || model.maxPositions == 0 || layers.empty())
    problems.add("mgc.model lacks vocabulary, hidden, positions or layer_count");
  checkEncoder(model, layers, problems);
  DescriptionChecks whole("", problems);
  whole.check("final_norm", model.finalNorm);
  whole.check("embedding.norm", model.embedding.norm);
  if (model.head.transform)
    whole.check("head.transform.norm", model.head.transform->norm);
  whole.expectBound("head.softcap", model.head.softcap);
  if (const int64_t width = model.embedding.width;
      model.head.tied && !model.head.transform && width > 0 && width != model.hidden)
    problems.add(
        "head.tied: true with embedding.width = {} and hidden = {}: the logits cannot read the table of tokens; "
        "expected tied: false, or head.transform, whose result has that width",
        width, model.hidden);
  const auto expectToken = [&](std::string_view field, const std::optional<int64_t> &token) {
    if (token && *token >= model.vocabulary)
      problems.add("{} = {} is not below vocabulary = {}", field, *token, model.vocabulary);
  };
  expectToken("padding_token", model.paddingToken);
  expectToken("start_token", model.startToken);
  expectToken("padding_of_labels", model.paddingOfLabels);
  if (model.objective == Objective::causal &&
      std::ranges::any_of(layers, [](const BlockDescription &block) { return !block.attention.causal; }))
    problems.add("attention.causal: false with the objective causal: tokens would see what they are to predict; "
                 "expected the objective masked");
  const auto biasOf = [](const BlockDescription &block) { return block.attention.relativeBias; };
  if (std::ranges::any_of(layers, [&](const auto &block) { return biasOf(block) != biasOf(layers.front()); }))
    problems.add("layers with different attention.relative_bias; expected one, whose table is that of all");
  for (size_t layer = 0; layer < layers.size(); ++layer)
    if (layer == 0 || layers[layer] != layers[layer - 1])
      DescriptionChecks(fmt::format("layer {}: ", layer), problems).check(layers[layer]);
}

} // namespace mgc::frontend
