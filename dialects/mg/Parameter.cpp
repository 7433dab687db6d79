// See Parameter.h.
#include "dialects/mg/Parameter.h"

#include <fmt/format.h>

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

static bool hasTensor(Attribute view) {
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(view);
  return dictionary && dictionary.getAs<StringAttr>("tensor");
}

// A whole number of positions each, all of the dimension together.
static Status verifyCounts(ArrayAttr parts, StringAttr along, LayoutAttr layout, ArrayRef<int64_t> shape) {
  int64_t place = layout && along ? layout.indexOf(along) : -1, positions = 0;
  if (place < 0)
    return errorf("{}: along names no dimension of the parameter", kParamAttr.str());
  for (DictionaryAttr part : parts.getAsRange<DictionaryAttr>()) {
    auto count = part.getAs<IntegerAttr>("count");
    if (!count || count.getInt() < 1 || count.getInt() > shape[place] - positions)
      return errorf("{}: part {} takes {} of the {} positions left along {}", kParamAttr.str(), nameOfView(part),
                    count ? count.getInt() : 0, shape[place] - positions, along.str());
    positions += count.getInt();
  }
  return positions == shape[place] ? Status::ok()
                                   : errorf("{}: the parts take {} of the {} positions along {}",
                                            kParamAttr.str(), positions, shape[place], along.str());
}

Status mgc::verifyParameter(Attribute param, Type type) {
  auto dictionary = dyn_cast<DictionaryAttr>(param);
  auto parts = dictionary ? dictionary.getAs<ArrayAttr>("parts") : ArrayAttr();
  bool named = parts ? !parts.empty() && llvm::all_of(parts, hasTensor) : hasTensor(param);
  if (!named)
    return errorf("{} names no tensor", kParamAttr.str());
  if (!parts)
    return Status::ok();
  return verifyCounts(parts, alongOf(dictionary), layoutOf(type), cast<RankedTensorType>(type).getShape());
}
