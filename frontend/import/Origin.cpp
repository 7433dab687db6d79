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

// Reads the fields that blocks were made with (LayoutOption::ofBlocks); an edited module may say anything.
void readBlockFields(DictionaryAttr training, Layout &layout) {
  const auto read = [&](const LayoutOption &option, auto Layout::*field, Attribute value) {
    using Field = std::remove_reference_t<decltype(layout.*field)>;
    if constexpr (std::is_same_v<Field, double>) {
      if (auto real = dyn_cast<FloatAttr>(value))
        layout.*field = real.getValueAsDouble();
    } else if constexpr (std::is_same_v<Field, std::string>) {
      if (auto word = dyn_cast<StringAttr>(value))
        layout.*field = word.str();
    } else if constexpr (std::is_same_v<Field, bool>) {
      layout.*field = isa<BoolAttr>(value) && cast<BoolAttr>(value).getValue();
    } else if (auto number = dyn_cast<IntegerAttr>(value)) {
      layout.*field = std::clamp(number.getInt(), option.least, option.most);
    }
  };
  for (const LayoutOption &option : layoutOptions())
    std::visit(
        [&](const auto &field) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(field)>, std::monostate>)
            if (const Attribute value = training.get(option.key()))
              read(option, field, value);
        },
        option.ofBlocks);
}

// The fields of a layout that importModel reads besides the attributes, which the module has.
Layout layoutOf(ModuleOp module, const ModelDescription &model) {
  Layout layout;
  auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr);
  const auto number = [&](StringRef name) {
    auto value = training ? training.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? value.getInt() : 1;
  };
  layout.sequenceLength = number("sequence_length");
  layout.microBatchSize = number("micro_batch_size");
  layout.globalBatchSize = number("global_batch_size");
  auto type = training ? training.getAs<TypeAttr>(kValueType) : TypeAttr();
  layout.dtype = type && type.getValue().isBF16() ? "bf16" : "f32";
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr))
    layout.tp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::tensor)),
    layout.dp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::data)),
    layout.cp = mesh.sizeOf(mesh.axesOf(plan::AxisRole::sequence));
  layout.hasExperts = model.hasExperts(); // the mesh then has their axes, whatever their sizes
  if (auto types = training ? training.getAs<ArrayAttr>(kContextTypes) : ArrayAttr())
    for (auto type : types.getAsRange<StringAttr>())
      layout.contextTypes.push_back(type.str());
  layout.contextTypes.resize(model.layers.size()); // an edited module may lack some
  if (training)
    readBlockFields(training, layout);
  // An edited module may have other values here.
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
