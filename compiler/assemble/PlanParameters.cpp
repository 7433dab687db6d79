// See PlanParameters.h.
#include "compiler/assemble/PlanParameters.h"

#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {

namespace {

Result<plan::InitKind> initOf(DictionaryAttr param) {
  auto init = param.getAs<StringAttr>("init");
  if (!init || init == "normal")
    return plan::InitKind::normal;
  if (init == "zeros" || init == "ones")
    return init == "zeros" ? plan::InitKind::zeros : plan::InitKind::ones;
  return errorf("mg.param of {}: init is \"{}\"; expected normal, zeros or ones",
                param.getAs<StringAttr>("tensor").str(), init.str());
}

// The dimensions of a view: those of the parameter, but its own in the place of `along`, or none.
std::vector<plan::ParameterDim> dimsOf(DictionaryAttr view, RankedTensorType type, StringAttr along) {
  auto valid = view.getAs<DenseI64ArrayAttr>("valid");
  std::vector<plan::ParameterDim> dims;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    StringAttr name = layoutOf(type).getNames()[i];
    int64_t size = type.getDimSize(i), number = int64_t(dims.size());
    if (name == along) {
      name = view.getAs<StringAttr>("own");
      size = positionsOf(view);
    }
    if (name)
      dims.push_back({name.str(), size, valid && number < valid.size() ? valid[number] : size,
                      axesOf(layoutOf(type).getAxes()[i])});
  }
  return dims;
}

// Where the view's rows lie in the joined matrix: from position `begin` of `along` on.
plan::Parameter::Rows rowsOf(RankedTensorType type, MeshAttr mesh, StringAttr along, int64_t begin) {
  if (!along)
    return {};
  int64_t place = layoutOf(type).indexOf(along), inner = 1; // elements of a position on a rank
  for (int64_t i = place + 1; i < type.getRank(); ++i)
    inner *= type.getDimSize(i) / mesh.sizeOf(layoutOf(type).getAxes()[i]);
  return {place, begin * inner, type.getDimSize(place) * inner};
}

Result<plan::Parameter> describeView(DictionaryAttr view, RankedTensorType type, StringAttr along,
                                     int64_t instance) {
  auto list = [&](StringRef name) {
    auto array = view.getAs<DenseI64ArrayAttr>(name);
    return array ? std::vector<int64_t>(array.asArrayRef().begin(), array.asArrayRef().end())
                 : std::vector<int64_t>();
  };
  plan::Parameter parameter;
  parameter.name = nameForInstance(nameOf(view), instance);
  parameter.tensor = nameForInstance(view.getAs<StringAttr>("tensor").str(), instance);
  for (const std::string &alias : textsIn(view, "aliases"))
    parameter.aliases.push_back(nameForInstance(alias, instance));
  parameter.fileShape = list("file_shape");
  parameter.grouping = list("grouping");
  parameter.offset = list("offset");
  parameter.dims = dimsOf(view, type, along);
  MGC_ASSIGN(init, initOf(view));
  parameter.init = init;
  if (auto std = view.getAs<FloatAttr>("std"))
    parameter.initStd = std.getValueAsDouble();
  return parameter;
}

// One place of the parameters that the argument of forward joins, or of the one that it is.
Status addPlace(func::FuncOp forward, MeshAttr mesh, int64_t argument, int64_t instance,
                plan::Parameter::Place where, std::vector<plan::Parameter> &parameters,
                std::map<std::string, size_t> &known) {
  auto param = forward.getArgAttrOfType<DictionaryAttr>(argument, kParamAttr);
  RankedTensorType type = shardedType(forward.getArgAttr(argument, kTypeAttr));
  int64_t begin = 0;
  for (DictionaryAttr view : viewsOf(param)) {
    MGC_ASSIGN(parameter, describeView(view, type, alongOf(param), instance));
    parameter.rows = rowsOf(type, mesh, alongOf(param), begin);
    begin += positionsOf(view);
    auto [it, isNew] = known.try_emplace(parameter.name, parameters.size());
    if (isNew)
      parameters.push_back(std::move(parameter));
    std::vector<plan::Parameter::Place> &places = parameters[it->second].places;
    if (!llvm::is_contained(places, where))
      places.push_back(where);
  }
  return Status::ok();
}

} // namespace

Status addParameters(StageOp stage, const Blocks &blocks, std::vector<plan::Parameter> &parameters,
                     std::map<std::string, size_t> &known) {
  auto mesh = stage->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
  for (PlaceOp place : stage.all<PlaceOp>()) {
    func::FuncOp forward = blocks.at(place.getBlock()).forward.function;
    for (int64_t n = 0; n < int64_t(place.getCount()); ++n)
      MGC_TRY(addPlace(forward, mesh, place.getArgument(), int64_t(place.getFirst()) + n,
                       {int64_t(stage.getNumber()), int64_t(place.getBucket()),
                        int64_t(place.getOffset()) + n * int64_t(place.getStride())},
                       parameters, known));
  }
  return Status::ok();
}

} // namespace mgc
