#include "frontend/import/Import.h"
#include "frontend/import/BlockBuilder.h"
#include "frontend/import/RuleTable.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace mgc::frontend {

// --- Module attributes -------------------------------------------------------------------------------------

static DictionaryAttr trainingAttr(Builder &builder, const ModelDescription &model, const Layout &layout) {
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  auto flag = [&](StringRef name, bool value) {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  };
  auto element = [&](StringRef name, const std::string &type) {
    return builder.getNamedAttr(name, TypeAttr::get(elementType(builder, type)));
  };
  SmallVector<NamedAttribute> training(
      {number("sequence_length", layout.sequenceLength), number("micro_batch_size", layout.microBatchSize),
       number("global_batch_size", layout.globalBatchSize), number("microbatches", layout.microbatches),
       number("vocabulary", model.vocabulary),
       builder.getNamedAttr("schedule", builder.getStringAttr(layout.schedule)),
       number("virtual_stages", layout.vpp), number("zero", layout.zero),
       number("loss_tile", layout.lossTile), flag("sequence_parallel", layout.sequenceParallel),
       flag("split_backward", layout.splitBackward), element(kValueType, layout.dtype),
       element(kGradientType, layout.gradientType)});
  if (layout.bucketElements > 0)
    training.push_back(number("bucket_elements", layout.bucketElements));
  return builder.getDictionaryAttr(training);
}

static void setAttributes(ModuleOp module, const ModelDescription &model, const Layout &layout) {
  Builder builder(module.getContext());
  module->setAttr(kMeshAttr, MeshAttr::get(builder.getContext(), layout.mesh()));
  module->setAttr(kTrainingAttr, trainingAttr(builder, model, layout));
  module->setAttr(kModelAttr, builder.getDictionaryAttr(
                                  {builder.getNamedAttr("type", builder.getStringAttr(model.family)),
                                   builder.getNamedAttr("config", builder.getStringAttr(model.text))}));
  module->setAttr(kPhaseAttr, builder.getStringAttr("import"));
}

// --- Blocks ------------------------------------------------------------------------------------------------

static std::vector<ModelParameter> select(const ModelDescription &model, llvm::ArrayRef<StringRef> roles) {
  std::vector<ModelParameter> selected;
  for (const ModelParameter &entry : model.parameters)
    if (llvm::is_contained(roles, entry.role))
      selected.push_back(entry);
  return selected;
}

static void buildEmbed(ModuleOp module, const ModelDescription &model, const Layout &layout) {
  BlockBuilder block(module, "embed", model, layout);
  bool dropped = model.embeddingDropout > 0;
  block.addData("tokens", {"s", "b"}, /*integer=*/true);
  if (model.learnedPositions || dropped)
    block.addData("positions", {"s", "b"}, /*integer=*/true);
  if (dropped)
    block.addData("samples", {"b"}, /*integer=*/true);
  block.addParameters(select(model, {"embed.tokens", "embed.positions"}));
  Value x = block.embed("tokens", "embed.tokens", model.paddingToken);
  if (model.learnedPositions)
    x = block.add(x, block.embed("positions", "embed.positions"));
  block.addResult(block.dropout(x, model.embeddingDropout, "embed"));
  block.finish();
}

static void buildLayer(ModuleOp module, StringRef name, const BlockKind &kind, const ModelDescription &model,
                       const Layout &layout) {
  const BlockDescription &spec = kind.block;
  BlockBuilder block(module, name, model, layout);
  Value x = block.addActivation();
  block.addData("positions", {"s", "b"}, /*integer=*/true);
  block.addData("key_positions", {"t", "b"}, /*integer=*/true);
  if (spec.attention.dropout > 0 || spec.residualDropout > 0)
    block.addData("samples", {"b"}, /*integer=*/true);
  block.addParameters(kind.parameters);
  Value attended = block.attention(block.norm(x, "attn_norm", spec.attentionNorm), spec.attention);
  x = block.add(x, block.dropout(attended, spec.residualDropout, "attention.residual"));
  Value transformed = block.mlp(block.norm(x, "mlp_norm", spec.mlpNorm), spec.mlp);
  x = block.add(x, block.dropout(transformed, spec.residualDropout, "mlp.residual"));
  block.addResult(x);
  block.finish();
}

static void buildHead(ModuleOp module, const ModelDescription &model, const Layout &layout) {
  BlockBuilder block(module, "head", model, layout);
  Value x = block.addActivation();
  block.addData("labels", {"s", "b"}, /*integer=*/true);
  block.addData("loss_weights", {"s", "b"}, /*integer=*/false);
  block.addParameters(select(
      model, {"final_norm.weight", "final_norm.bias", model.tiedHead ? "embed.tokens" : "head.weight"}));
  block.loss(block.norm(x, "final_norm", model.finalNorm));
  block.finish();
}

static std::string layerName(const ModelDescription &model, int64_t kind) {
  return model.kinds.size() == 1 ? "layer" : "layer" + std::to_string(kind);
}

// --- Chain -------------------------------------------------------------------------------------------------

// One instance op per run of layers of one kind; an instance's number is its layer.
static void buildChain(ModuleOp module, const ModelDescription &model) {
  OpBuilder builder(module.getContext());
  Location loc = builder.getUnknownLoc();
  builder.setInsertionPointToEnd(module.getBody());
  auto chain = ChainOp::create(builder, loc);
  builder.setInsertionPointToStart(&chain.getBody().emplaceBlock());
  InstanceOp::create(builder, loc, "embed");
  for (int64_t first = 0, end; first < model.layerCount(); first = end) {
    end = first + 1;
    while (end < model.layerCount() && model.layers[end] == model.layers[first])
      ++end;
    InstanceOp::create(builder, loc, layerName(model, model.layers[first]), first, end - first);
  }
  InstanceOp::create(builder, loc, "head");
}

OwningOpRef<ModuleOp> importModel(MLIRContext &context, const ModelDescription &model, const Layout &layout) {
  context.loadDialect<MgDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  setAttributes(*module, model, layout);
  buildEmbed(*module, model, layout);
  for (auto [kind, block] : llvm::enumerate(model.kinds))
    buildLayer(*module, layerName(model, kind), block, model, layout);
  buildHead(*module, model, layout);
  buildChain(*module, model);
  setMegatronRules(*module); // knows the dimensions by the blocks
  if (failed(verify(*module)))
    return nullptr;
  return module;
}

} // namespace mgc::frontend
