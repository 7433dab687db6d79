#include "frontend/import/Import.h"
#include "frontend/import/BlockBuilder.h"
#include "frontend/import/RuleTable.h"
#include "frontend/layout/Context.h"
#include "frontend/layout/Frozen.h"
#include "frontend/layout/Options.h"
#include "mlir/IR/Verifier.h"
#include "model/Parameters.h"
#include "model/Vocabulary.h"
#include "runtime/base/Bf16.h"

using namespace mlir;

namespace mgc::frontend {

// --- Module attributes -------------------------------------------------------------------------------------

static plan::Images imagesOf(const EncoderDescription &encoder) {
  const Patches &patches = *encoder.patches;
  return {.channels = patches.channels,
          .patchSize = patches.size,
          .rows = patches.rows,
          .columns = patches.columns,
          .classTokens = patches.classToken ? 1 : 0,
          .token = encoder.imageTokens->token,
          .firstFeature = encoder.imageTokens->first};
}

static std::vector<plan::Setting> settingsOf(const Layout &layout) {
  std::vector<plan::Setting> settings;
  for (const LayoutOption &option : layoutOptions()) {
    if (option.onResume == OnResume::free)
      continue;
    const auto resume =
        option.onResume == OnResume::noted ? plan::Setting::Resume::noted : plan::Setting::Resume::refused;
    if (const std::string value = option.valueIn(layout); !value.empty())
      settings.push_back({option.flag, value, resume});
  }
  return settings;
}

// The fields of the layout, and those that the model decides.
static TrainingSettings trainingOf(const ModelDescription &model, const Layout &layout) {
  TrainingSettings training = layout;
  training.vocabulary = model.vocabulary;
  training.objective = *plan::valueNamed<plan::Objective>(wordOf(model.objective));
  training.tokenTypes = model.embedding.types;
  if (model.encoder)
    training.startToken = model.startToken, training.paddingToken = model.paddingOfLabels;
  if (model.readsImages())
    training.images = imagesOf(*model.encoder);
  if (layout.resetPositionIds && model.embedding.learnedPositions)
    training.longestDocument = model.maxPositions;
  training.settings = settingsOf(layout);
  return training;
}

static void setAttributes(ModuleOp module, const ModelDescription &model, const Layout &layout) {
  Builder builder(module.getContext());
  module->setAttr(kMeshAttr, MeshAttr::get(builder.getContext(), layout.mesh()));
  module->setAttr(kTrainingAttr, TrainingAttr::get(builder.getContext(), trainingOf(model, layout)));
  module->setAttr(
      kModelAttr,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("type", builder.getStringAttr(model.family)),
           builder.getNamedAttr(
               "config",
               TextAttr::get(builder.getContext(), Assembly::makeText(builder.getContext(), "config", model.text))),
           builder.getNamedAttr("ignored_tensors", namesAttr(builder, ignoredTensors(model, layout.laterTokens)))}));
  module->setAttr(kPhaseAttr, builder.getStringAttr("import"));
}

// --- Blocks ------------------------------------------------------------------------------------------------

// Adds parameters outside the layers.
static void addOutside(BlockBuilder &block, const ModelDescription &model, const FrozenParameters &frozen,
                       llvm::ArrayRef<StringRef> roles) {
  std::vector<ModelParameter> selected;
  for (const ModelParameter &entry : model.parameters)
    if (llvm::is_contained(roles, entry.role))
      selected.push_back(entry);
  block.addParameters(selected, frozen.of(selected));
}

// As a class that keeps the factor in the type of its weights.
static double roundedTo(plan::DType dtype, double factor) {
  return dtype == plan::DType::bf16 ? double(toFloat(toBf16(float(factor)))) : factor;
}

// Data that the embedding reads. Dropout is drawn by the place in the sequence.
static void addEmbedData(BlockBuilder &block, const Embedding &embedding, const Layout &layout) {
  const bool isDropped = embedding.dropout > 0;
  const StringRef positions = positionsRead(layout);
  block.addData("tokens", {"s", "b"}, /*integer=*/true);
  if (embedding.learnedPositions)
    block.addData(positions, {"s", "b"}, /*integer=*/true);
  if (isDropped && !(embedding.learnedPositions && positions == "positions"))
    block.addData("positions", {"s", "b"}, /*integer=*/true);
  if (embedding.types > 0)
    block.addData("token_types", {"s", "b"}, /*integer=*/true);
  if (isDropped)
    block.addData("samples", {"b"}, /*integer=*/true);
}

// Embeddings of tokens, or what stands in their place, with all that an embedding adds.
static Value completed(BlockBuilder &block, Value x, const Embedding &embedding, const Layout &layout) {
  if (embedding.learnedPositions)
    x = block.add(x, block.embed(positionsRead(layout), "embed.positions", {}, embedding.positionOffset));
  if (embedding.types > 0)
    x = block.add(x, block.embed("token_types", "embed.types"));
  const bool isProjected = embedding.width > 0;
  x = isProjected ? x : block.asResidual(x);
  x = block.dropout(block.norm(x, "embed_norm", embedding.norm), embedding.dropout, "embed");
  return isProjected ? block.asResidual(block.linear(x, "embed.project")) : block.asHidden(x);
}

// placed: what stands where images do; null: there are none.
static Value embedded(BlockBuilder &block, const Embedding &embedding, const ModelDescription &model,
                      const Layout &layout, Value placed = {}) {
  Value x =
      block.scale(block.embed("tokens", "embed.tokens", model.paddingToken), roundedTo(layout.dtype, embedding.scale));
  return completed(block, placed ? block.addPlaced(x, placed) : x, embedding, layout);
}

// Adds the parameters of the embedding; the encoder's have names behind "encoder.".
static void addEmbedParameters(BlockBuilder &block, const ModelDescription &model, const FrozenParameters &frozen,
                               Stack stack) {
  static constexpr StringRef kOwn[] = {"embed.positions", "embed.types",          "embed_norm.weight",
                                       "embed_norm.bias", "embed.project.weight", "embed.project.bias"};
  std::vector<std::string> roles = {"embed.tokens"};
  for (StringRef role : kOwn)
    roles.push_back((stack == Stack::encoder ? StringRef(kOfEncoderRole) + role : Twine(role)).str());
  addOutside(block, model, frozen, llvm::to_vector_of<StringRef>(roles));
}

static void buildEmbed(ModuleOp module, const ModelDescription &model, const Layout &layout,
                       const FrozenParameters &frozen) {
  BlockBuilder block(module, "embed", model, layout);
  addEmbedData(block, model.embedding, layout);
  const bool pools = model.pooledAuxLoss != 0;
  if (pools)
    block.addData("step_tokens", {}, /*integer=*/false);
  addEmbedParameters(block, model, frozen, Stack::decoder);
  block.addResult(embedded(block, model.embedding, model, layout));
  if (pools) {
    block.beginPooled();
    block.addPooledResults();
  }
  block.finish();
}

// Layers of one kind are instances of one block: equal layers of the model with equal attention over cp, of which the same
// parameters are frozen.
struct LayerKind {
  int64_t model = 0;            // index in ModelDescription::kinds
  std::string contextType;      // empty: cp is 1
  bool isLastOfDecoder = false; // the last layer of the decoder does not pass on the encoder's output
  std::vector<bool> frozen;     // by parameter of the kind
  bool operator==(const LayerKind &) const = default;
};

static std::vector<LayerKind> kindsOfLayers(const ModelDescription &model, const Layout &layout,
                                            const FrozenParameters &frozen) {
  std::vector<LayerKind> kinds;
  for (int64_t layer = 0; layer < model.layerCount(); ++layer)
    kinds.push_back({model.layers[layer], layout.cp > 1 ? layout.contextTypes[layer] : "",
                     model.attendsToEncoder() && layer + 1 == model.layerCount(),
                     frozen.of(model.kinds[model.layers[layer]].parameters, layer)});
  return kinds;
}

// Data that a layer reads, but for `step_tokens`. isPadded: its sequences may end before their length.
static void addLayerData(BlockBuilder &block, const BlockDescription &spec, StringRef contextType, const Layout &layout,
                         bool isPadded = true) {
  block.addData("positions", {"s", "b"}, /*integer=*/true);
  if (readsAllPositions(contextType))
    block.addData("key_positions", {"t", "b"}, /*integer=*/true);
  if (layout.resetPositionIds && spec.attention.rope)
    block.addData("position_ids", {"s", "b"}, /*integer=*/true);
  // Bounds of documents; those of all positions where the rank has the queries of all.
  const auto addBounds = [&](StringRef kind) {
    if (exchangesHeads(contextType))
      block.addData(("key_" + kind).str(), {"t", "b"}, /*integer=*/true);
    else
      block.addData(kind, {"s", "b"}, /*integer=*/true);
  };
  if (layout.resetAttentionMask)
    addBounds("document_starts");
  if (!spec.attention.causal && isPadded)
    addBounds("document_ends");
  if (spec.cross) {
    block.addData("encoder.key_positions", {"t", "b"}, /*integer=*/true);
    block.addData("encoder_ends", {"s", "b"}, /*integer=*/true);
  }
  if ((spec.cross && (spec.cross->dropout > 0 || spec.crossBranch.dropout > 0)) || spec.attention.dropout > 0 ||
      spec.attentionBranch.dropout > 0 || spec.mlpBranch.dropout > 0 || spec.mlp.dropout > 0)
    block.addData("samples", {"b"}, /*integer=*/true);
}

static void addLayerParameters(BlockBuilder &block, const BlockKind &kind, const std::vector<bool> &frozen) {
  const Experts *experts = kind.block.experts ? &*kind.block.experts : nullptr;
  block.addParameters(kind.parameters, frozen, experts);
  if (experts)
    block.addCounter(kind.parameters, frozen, *experts);
}

static void buildLayer(ModuleOp module, StringRef name, const LayerKind &layer, const ModelDescription &model,
                       const Layout &layout) {
  const BlockKind &kind = model.kinds[layer.model];
  const BlockDescription &spec = kind.block;
  BlockBuilder block(module, name, model, layout);
  block.setStack("decoder");
  Value x = block.addActivation();
  const bool pools = model.pooledAuxLoss != 0;
  if (pools)
    block.takePooled();
  if (model.attendsToEncoder())
    block.addEncoded();
  addLayerData(block, spec, layer.contextType, layout);
  if (spec.experts && (layout.balanceType != "none" || layout.zLossCoefficient > 0))
    block.addData("step_tokens", {}, /*integer=*/false);
  addLayerParameters(block, kind, layer.frozen);
  block.addResult(block.layer(x, spec, layer.contextType));
  if (pools)
    block.addPooledResults();
  if (model.attendsToEncoder() && !layer.isLastOfDecoder)
    block.passEncoded();
  block.finish();
}

// --- Encoder -----------------------------------------------------------------------------------------------

// The class token is a table of one row, which position 0 alone finds; where there is no patch, pixels are zeros.
static void buildPatchEmbed(ModuleOp module, const ModelDescription &model, const Layout &layout,
                            const FrozenParameters &frozen) {
  const EncoderDescription &encoder = *model.encoder;
  BlockBuilder block(module, "encoder_embed", model, layout, Stack::encoder);
  block.addData("patches", {"s", "b", "n", "o", "u"}, /*integer=*/false);
  block.addData("positions", {"s", "b"}, /*integer=*/true);
  if (encoder.embedding.dropout > 0)
    block.addData("samples", {"b"}, /*integer=*/true);
  addOutside(block, model, frozen,
             {"encoder.embed.patches.weight", "encoder.embed.patches.bias", "encoder.embed.class",
              "encoder.embed.positions", "encoder.embed_norm.weight", "encoder.embed_norm.bias"});
  Value x = block.linear(block.asValue(block.data("patches")), "embed.patches");
  if (encoder.patches->classToken)
    x = block.add(x, block.embed("positions", "embed.class"));
  block.addResult(completed(block, x, encoder.embedding, layout));
  block.finish();
}

static void buildEncoderEmbed(ModuleOp module, const ModelDescription &model, const Layout &layout,
                              const FrozenParameters &frozen) {
  if (model.readsImages())
    return buildPatchEmbed(module, model, layout, frozen);
  BlockBuilder block(module, "encoder_embed", model, layout, Stack::encoder);
  addEmbedData(block, model.encoder->embedding, layout);
  addEmbedParameters(block, model, frozen, Stack::encoder);
  block.addResult(embedded(block, model.encoder->embedding, model, layout));
  block.finish();
}

static void buildEncoderLayer(ModuleOp module, StringRef name, const ModelDescription &model, const Layout &layout,
                              const std::vector<bool> &frozen) {
  BlockBuilder block(module, name, model, layout, Stack::encoder);
  block.setStack("encoder");
  Value x = block.addActivation();
  const bool isWhole = model.readsImages() && model.encoder->patches->positions() == layout.encoderLength;
  addLayerData(block, model.encoder->layer, "", layout, !isWhole);
  block.addParameters(model.encoderLayer, frozen);
  block.addResult(block.layer(x, model.encoder->layer, ""));
  block.finish();
}

// From the encoder's last layer to the decoder's first: the end of one, the embedding of the other.
static void buildBridge(ModuleOp module, const ModelDescription &model, const Layout &layout,
                        const FrozenParameters &frozen) {
  const EncoderDescription &encoder = *model.encoder;
  BlockBuilder block(module, "bridge", model, layout, Stack::encoder);
  Value x = block.addActivation();
  if (encoder.dropout > 0)
    block.addData("positions", {"s", "b"}, /*integer=*/true);
  block.enter(Stack::decoder);
  addEmbedData(block, model.embedding, layout);
  if (encoder.dropout > 0 && model.embedding.dropout == 0)
    block.addData("samples", {"b"}, /*integer=*/true);
  if (encoder.imageTokens)
    block.addPlaces();
  addOutside(block, model, frozen,
             {"encoder.final_norm.weight", "encoder.final_norm.bias", "project.up.weight", "project.up.bias",
              "project.down.weight", "project.down.bias"});
  addEmbedParameters(block, model, frozen, Stack::decoder);
  const auto made = [&] {
    block.enter(Stack::encoder);
    x = block.dropout(block.read(x, "final_norm", encoder.finalNorm), encoder.dropout, "final");
    return encoder.projector ? block.projected(x, *encoder.projector) : x;
  };
  if (encoder.imageTokens) {
    Value placed = block.placed(made());
    block.enter(Stack::decoder);
    block.addResult(embedded(block, model.embedding, model, layout, placed));
  } else {
    block.addResult(embedded(block, model.embedding, model, layout));
    block.addResult(block.asEncoded(made()));
  }
  block.finish();
}

static StringRef tableOfHead(const ModelDescription &model) { return model.head.tied ? "embed.tokens" : "head.weight"; }

static void buildHead(ModuleOp module, const ModelDescription &model, const Layout &layout,
                      const FrozenParameters &frozen) {
  BlockBuilder block(module, "head", model, layout);
  Value x = block.addActivation();
  const bool pools = model.pooledAuxLoss != 0;
  if (pools)
    block.takePooled();
  block.addData("labels", {"s", "b"}, /*integer=*/true);
  block.addData("loss_weights", {"s", "b"}, /*integer=*/false);
  if (pools)
    block.addData("step_tokens", {}, /*integer=*/false);
  if (model.finalDropout > 0) {
    block.addData("positions", {"s", "b"}, /*integer=*/true);
    block.addData("samples", {"b"}, /*integer=*/true);
  }
  addOutside(block, model, frozen,
             {"final_norm.weight", "final_norm.bias", "head.transform.weight", "head.transform.bias",
              "head.transform_norm.weight", "head.transform_norm.bias", tableOfHead(model), "head.bias"});
  Value normed = block.dropout(block.read(x, "final_norm", model.finalNorm), model.finalDropout, "final");
  if (layout.laterTokens > 0)
    block.addResult(normed);
  block.loss(normed);
  if (pools)
    block.pooledLoss();
  block.finish();
}

// The module that predicts the token `depth` ahead of the next one: a layer like the last one, between what joins the hidden
// state and the embedding of a later token, and a loss.
static void buildLaterToken(ModuleOp module, StringRef name, int64_t depth, const LayerKind &last,
                            const ModelDescription &model, const Layout &layout, const FrozenParameters &frozen) {
  const BlockKind &kind = model.kinds[last.model];
  BlockBuilder block(module, name, model, layout);
  block.setStack("later");
  Value x = block.addActivation(/*isResidual=*/false); // behind a norm
  block.addData(shifted("tokens", depth), {"s", "b"}, /*integer=*/true);
  block.addData(shifted("labels", depth), {"s", "b"}, /*integer=*/true);
  block.addData(shifted("loss_shares", depth), {"s", "b"}, /*integer=*/false);
  addLayerData(block, kind.block, last.contextType, layout);
  block.addData("step_tokens", {}, /*integer=*/false);
  addOutside(block, model, frozen, {"embed.tokens", tableOfHead(model), "head.bias"});
  const int64_t number = model.layerCount() + depth - 1;
  block.addParameters(model.later.parameters, frozen.of(model.later.parameters, number));
  addLayerParameters(block, kind, frozen.of(kind.parameters, number));
  x = block.asResidual(block.joinLaterToken(x, depth));
  x = block.read(block.layer(x, kind.block, last.contextType), "later.norm", model.finalNorm);
  if (depth < layout.laterTokens)
    block.addResult(x);
  block.laterLoss(x, depth);
  block.finish();
}

static std::string nameOfLaterToken(int64_t depth) { return "later" + std::to_string(depth); }

// Blocks of a stack's layers are numbered where there are several.
template <typename Kind> struct LayerBlocks {
  std::string name;
  std::vector<Kind> ofLayers, distinct;
  LayerBlocks(std::string name, std::vector<Kind> layers) : name(std::move(name)), ofLayers(std::move(layers)) {
    for (const Kind &kind : ofLayers)
      if (!llvm::is_contained(distinct, kind))
        distinct.push_back(kind);
  }
  std::string nameOf(const Kind &kind) const {
    return distinct.size() == 1 ? name : name + std::to_string(llvm::find(distinct, kind) - distinct.begin());
  }
};
using EncoderBlocks = LayerBlocks<std::vector<bool>>; // by parameter: whether it is frozen

static EncoderBlocks encoderBlocks(const ModelDescription &model, const FrozenParameters &frozen) {
  std::vector<std::vector<bool>> layers;
  for (int64_t layer = 0; layer < model.encoderLayerCount(); ++layer)
    layers.push_back(frozen.of(model.encoderLayer, layer));
  return {"encoder_layer", std::move(layers)};
}

// --- Chain -------------------------------------------------------------------------------------------------

// One instance op per run of layers of one kind; an instance's number is its layer.
template <typename Kind> static void addLayers(OpBuilder &builder, Location loc, const LayerBlocks<Kind> &blocks) {
  const auto layers = static_cast<int64_t>(blocks.ofLayers.size());
  for (int64_t first = 0, end; first < layers; first = end) {
    end = first + 1;
    while (end < layers && blocks.ofLayers[end] == blocks.ofLayers[first])
      ++end;
    InstanceOp::create(builder, loc, blocks.nameOf(blocks.ofLayers[first]), first, end - first);
  }
}

// Modules that predict later tokens are numbered on behind the layers.
static void buildChain(ModuleOp module, const EncoderBlocks &encoder, const LayerBlocks<LayerKind> &blocks,
                       int64_t laterTokens) {
  OpBuilder builder(module.getContext());
  Location loc = builder.getUnknownLoc();
  builder.setInsertionPointToEnd(module.getBody());
  auto chain = ChainOp::create(builder, loc);
  builder.setInsertionPointToStart(&chain.getBody().emplaceBlock());
  if (!encoder.ofLayers.empty()) {
    InstanceOp::create(builder, loc, "encoder_embed");
    addLayers(builder, loc, encoder);
    InstanceOp::create(builder, loc, "bridge");
  } else {
    InstanceOp::create(builder, loc, "embed");
  }
  addLayers(builder, loc, blocks);
  InstanceOp::create(builder, loc, "head");
  const auto layers = static_cast<int64_t>(blocks.ofLayers.size());
  for (int64_t depth = 1; depth <= laterTokens; ++depth)
    InstanceOp::create(builder, loc, nameOfLaterToken(depth), layers + depth - 1);
}

OwningOpRef<ModuleOp> importModel(MLIRContext &context, const ModelDescription &model, const Layout &layout) {
  context.loadDialect<MgDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  setAttributes(*module, model, layout);
  const FrozenParameters frozen(model, layout);
  const EncoderBlocks encoder = encoderBlocks(model, frozen);
  if (model.encoder) {
    buildEncoderEmbed(*module, model, layout, frozen);
    for (const std::vector<bool> &kind : encoder.distinct)
      buildEncoderLayer(*module, encoder.nameOf(kind), model, layout, kind);
    buildBridge(*module, model, layout, frozen);
  } else {
    buildEmbed(*module, model, layout, frozen);
  }
  const LayerBlocks blocks("layer", kindsOfLayers(model, layout, frozen));
  for (const LayerKind &kind : blocks.distinct)
    buildLayer(*module, blocks.nameOf(kind), kind, model, layout);
  buildHead(*module, model, layout, frozen);
  for (int64_t depth = 1; depth <= layout.laterTokens; ++depth)
    buildLaterToken(*module, nameOfLaterToken(depth), depth, blocks.ofLayers.back(), model, layout, frozen);
  buildChain(*module, encoder, blocks, layout.laterTokens);
  setMegatronRules(*module); // knows the dimensions by the blocks
  if (failed(verify(*module)))
    return nullptr;
  return module;
}

} // namespace mgc::frontend
