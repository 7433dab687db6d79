// See Parameter.h.
#include "dialects/mg/Parameter.h"

#include <cmath>
#include <fmt/format.h>
#include <set>

using namespace mlir;
using namespace mgc;

SmallVector<DictionaryAttr, 3> mgc::viewsOf(DictionaryAttr param) {
  auto parts = param.getAs<ArrayAttr>("parts");
  if (!parts)
    return {param};
  return llvm::to_vector<3>(parts.getAsRange<DictionaryAttr>());
}

StringAttr mgc::alongOf(DictionaryAttr param) { return param.getAs<StringAttr>("along"); }

static std::string nameOfView(DictionaryAttr view) {
  auto tensor = view.getAs<StringAttr>("tensor"), part = view.getAs<StringAttr>("part");
  std::string name = tensor ? tensor.str() : "";
  return part && !part.empty() ? fmt::format("{}[{}]", name, part.str()) : name;
}

std::string mgc::nameOf(DictionaryAttr param) {
  std::string name;
  for (DictionaryAttr view : viewsOf(param))
    name += (name.empty() ? "" : "+") + nameOfView(view);
  return name;
}

std::vector<std::string> mgc::textsIn(DictionaryAttr dictionary, StringRef name) {
  std::vector<std::string> texts;
  if (auto array = dictionary.getAs<ArrayAttr>(name))
    for (Attribute element : array)
      if (auto text = dyn_cast<StringAttr>(element))
        texts.push_back(text.str());
  return texts;
}

int64_t mgc::positionsOf(DictionaryAttr view) {
  auto count = view.getAs<IntegerAttr>("count");
  return count ? count.getInt() : 1;
}

bool mgc::decays(DictionaryAttr view) {
  auto fileShape = view.getAs<DenseI64ArrayAttr>("file_shape"),
       tensorShape = view.getAs<DenseI64ArrayAttr>("tensor_shape");
  auto tensor = view.getAs<StringAttr>("tensor");
  const int64_t ofStack = tensor && tensor.getValue().contains(plan::kStackHole) ? 1 : 0;
  return fileShape && (tensorShape ? tensorShape : fileShape).size() - ofStack >= 2;
}

double mgc::meanLoadOf(DictionaryAttr param) {
  auto load = param ? param.getAs<FloatAttr>("mean_load") : FloatAttr();
  return load ? load.getValueAsDouble() : 0;
}

bool mgc::isCounter(DictionaryAttr param) { return param && param.contains("counts"); }

static bool firstViewHas(DictionaryAttr param, StringRef key) {
  const auto views = param ? viewsOf(param) : SmallVector<DictionaryAttr, 3>();
  return !views.empty() && views.front().contains(key);
}
bool mgc::isFrozen(DictionaryAttr param) { return firstViewHas(param, "frozen"); }
bool mgc::isEvaluated(DictionaryAttr param) { return firstViewHas(param, "evaluated"); }

bool mgc::isTrained(DictionaryAttr param) { return !isFrozen(param) && meanLoadOf(param) == 0; }

Precision mgc::precisionOf(ModuleOp module, double meanLoad) {
  Type f32 = Float32Type::get(module.getContext());
  return meanLoad > 0 ? Precision{f32, f32} : precisionOf(module);
}

std::string mgc::reasonOfType(double meanLoad, plan::DType TrainingSettings::*field) {
  return meanLoad > 0 ? "as load stands in the place of its gradient"
                      : fmt::format("the {} of {}", nameOf(field), kTrainingAttr.str());
}

static bool namesTensor(Attribute view) {
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(view);
  return dictionary && dictionary.getAs<StringAttr>("tensor") && !dictionary.contains("parts") &&
         !dictionary.contains("along");
}

// `own` is a new dimension, `count` its size.
static Status verifyOwn(DictionaryAttr part, LayoutAttr layout) {
  auto own = part.getAs<StringAttr>("own");
  auto count = part.getAs<IntegerAttr>("count");
  bool isWhole =
      own ? layout.indexOf(own) < 0 && count && count.getInt() >= 1 : !part.contains("own") && !part.contains("count");
  return isWhole ? Status::ok()
                 : errorf("{}: part {} has a dimension of its own that is none; expected a new name `own` and its "
                          "size `count`, or neither",
                          kParamAttr.str(), nameOfView(part));
}

static Status verifyParts(ArrayAttr parts, StringAttr along, LayoutAttr layout, ArrayRef<int64_t> shape) {
  int64_t place = layout && along ? layout.indexOf(along) : -1, positions = 0;
  if (place < 0)
    return errorf("{}: along names no dimension of the parameter", kParamAttr.str());
  std::set<std::string> names;
  for (DictionaryAttr part : parts.getAsRange<DictionaryAttr>()) {
    MGC_TRY(verifyOwn(part, layout));
    if (!names.insert(nameOfView(part)).second)
      return errorf("{}: part {} stands twice", kParamAttr.str(), nameOfView(part));
    if (decays(part) != decays(cast<DictionaryAttr>(parts[0])))
      return errorf("{}: part {} decays or the first one does, not both; one matrix is updated as one",
                    kParamAttr.str(), nameOfView(part));
    if (isFrozen(part) != isFrozen(cast<DictionaryAttr>(parts[0])))
      return errorf("{}: part {} is frozen or the first one is, not both; one matrix is trained as one",
                    kParamAttr.str(), nameOfView(part));
    if (isEvaluated(part) != isEvaluated(cast<DictionaryAttr>(parts[0])))
      return errorf("{}: part {} is evaluated or the first one is, not both; one matrix is trained as one",
                    kParamAttr.str(), nameOfView(part));
    if (meanLoadOf(part) != 0 || isCounter(part))
      return errorf("{}: part {} has a mean load or counts; what load stands for is in no other matrix",
                    kParamAttr.str(), nameOfView(part));
    positions += std::min(positionsOf(part), shape[place] + 1); // no overflow
  }
  return positions == shape[place] ? Status::ok()
                                   : errorf("{}: the parts take {} of the {} positions along {}", kParamAttr.str(),
                                            positions, shape[place], along.str());
}

Status mgc::verifyParameter(Attribute param, Type type) {
  auto dictionary = dyn_cast<DictionaryAttr>(param);
  auto parts = dictionary ? dictionary.getAs<ArrayAttr>("parts") : ArrayAttr();
  if (const double load = dictionary ? meanLoadOf(dictionary) : 0; !(load >= 0) || !std::isfinite(load))
    return errorf("{}: mean_load = {}; expected a number of tokens", kParamAttr.str(), load);
  if (isCounter(dictionary) && meanLoadOf(dictionary) == 0)
    return errorf("{}: counts, but has no mean_load; expected the tokens that an expert has on average",
                  kParamAttr.str());
  if (isCounter(dictionary) && isFrozen(dictionary))
    return errorf("{}: counts and is frozen; nothing trains a counter", kParamAttr.str());
  if (isEvaluated(dictionary) && !isFrozen(dictionary))
    return errorf("{}: is evaluated and not frozen; an evaluation trains nothing", kParamAttr.str());
  if (!parts)
    return namesTensor(param) ? Status::ok() : errorf("{} names no tensor", kParamAttr.str());
  if (parts.empty() || !llvm::all_of(parts, namesTensor))
    return errorf("{}: one of its parts names no tensor", kParamAttr.str());
  return verifyParts(parts, alongOf(dictionary), layoutOf(type), cast<RankedTensorType>(type).getShape());
}
