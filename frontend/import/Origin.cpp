// See Origin.h.
#include "frontend/import/Origin.h"

#include "frontend/layout/ExpertRanks.h"
#include "frontend/layout/Options.h"

#include "frontend/Load.h"
#include "frontend/import/Import.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mgc::frontend {

namespace {

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

// Whether some function reads data of this kind.
bool reads(ModuleOp module, StringRef data) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto kind = function.getArgAttrOfType<StringAttr>(i, kDataAttr); kind && kind == data)
        return true;
  return false;
}

// The fields of a layout that importModel reads besides the attributes, which the module has.
Layout layoutOf(ModuleOp module, const ModelDescription &model) {
  Layout layout;
  static_cast<TrainingSettings &>(layout) = trainingOf(module);
  // An edited module may say anything.
  for (auto field : {&Layout::sequenceLength, &Layout::microBatchSize, &Layout::globalBatchSize})
    layout.*field = std::max<int64_t>(1, layout.*field);
  for (const LayoutOption &option : layoutOptions())
    if (const auto *number = std::get_if<int64_t TrainingSettings::*>(&option.ofBlocks))
      layout.**number = std::clamp(layout.**number, option.least, option.most);
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr))
    layout.tp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::tensor)),
    layout.dp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::data)),
    layout.cp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::sequence));
  layout.hasExperts = model.hasExperts();          // the mesh then has their axes, whatever their sizes
  layout.contextTypes.resize(model.layers.size()); // an edited module may lack some
  layout.encoderLength = model.encoder ? std::max<int64_t>(1, layout.encoderLength) : 0;
  if (model.later.parameters.empty())
    layout.laterTokens = 0;
  layout.resetPositionIds = reads(module, "position_ids");
  layout.resetAttentionMask = reads(module, "document_starts") || reads(module, "key_document_starts");
  return layout;
}

std::string configOf(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  auto config = model ? model.getAs<TextAttr>("config") : TextAttr();
  return config ? config.getText().str() : "";
}

} // namespace

bool isOfItsConfig(ModuleOp module, const std::string &phase, const Lower &lower) {
  const Result<ModelFile> file = parseModel(configOf(module), kModelAttr.str());
  if (!file.isOk())
    return false;
  ScopedDiagnosticHandler silent(module.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> fresh = importModel(*module.getContext(), file->model, layoutOf(module, file->model));
  if (!fresh)
    return false;
  (*fresh)->setAttrs(module->getAttrDictionary());
  (*fresh)->setAttr(kPhaseAttr, StringAttr::get(module.getContext(), "import"));
  return lower(*fresh, phase).isOk() && textOf(*fresh) == textOf(module);
}

bool hasConfig(ModuleOp module) { return !configOf(module).empty(); }

void forgetConfig(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  if (!model)
    return;
  NamedAttrList kept(model);
  kept.erase("config");
  module->setAttr(kModelAttr, kept.getDictionary(module.getContext()));
}

} // namespace mgc::frontend
