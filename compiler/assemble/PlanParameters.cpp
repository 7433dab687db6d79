// See PlanParameters.h.
#include "compiler/assemble/PlanParameters.h"

#include "dialects/mg/Parameter.h"
#include "plan/Expand.h"

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

Result<plan::Parameter> describeView(DictionaryAttr view, RankedTensorType type, StringAttr along) {
  auto list = [&](StringRef name) {
    auto array = view.getAs<DenseI64ArrayAttr>(name);
    return array ? std::vector<int64_t>(array.asArrayRef().begin(), array.asArrayRef().end()) : std::vector<int64_t>();
  };
  plan::Parameter parameter;
  parameter.name = nameOf(view);
  parameter.tensor = view.getAs<StringAttr>("tensor").str();
  parameter.aliases = textsIn(view, "aliases");
  parameter.fileShape = list("file_shape");
  parameter.tensorShape = list("tensor_shape");
  if (parameter.tensor.find(plan::kStackHole) != std::string::npos && !parameter.fileShape.empty())
    parameter.stacked = parameter.fileShape.front();
  parameter.grouping = list("grouping");
  parameter.offset = list("offset");
  parameter.dims = dimsOf(view, type, along);
  MGC_SET(parameter.init, initOf(view));
  if (auto std = view.getAs<FloatAttr>("std"))
    parameter.initStd = std.getValueAsDouble();
  if (auto share = view.getAs<FloatAttr>("active_share"))
    parameter.activeShare = share.getValueAsDouble();
  parameter.ofEncoder = view.contains("of_encoder");
  if (auto positions = view.getAs<IntegerAttr>("positions"))
    parameter.positions = positions.getInt();
  return parameter;
}

// Equal but for their places, and frozen both or neither.
bool isSame(const plan::Plan &plan, const plan::Parameter &a, const plan::Parameter &b) {
  plan::Parameter moved = a;
  moved.places = b.places;
  return moved == b && isFrozen(plan, a) == isFrozen(plan, b);
}

// Adds the place to the parameter that is equal otherwise, or the parameter. A place that is there already has one use more,
// unless it is frozen.
void add(plan::Parameter parameter, const plan::Parameter::Place &place, plan::Plan &plan) {
  std::vector<plan::Parameter> &parameters = plan.parameters;
  parameter.places = {place};
  auto it = llvm::find_if(parameters, [&](const plan::Parameter &other) { return isSame(plan, parameter, other); });
  if (it == parameters.end())
    it = parameters.insert(it, std::move(parameter));
  else if (auto same = llvm::find_if(it->places, [&](const auto &other) { return other.coincidesWith(place); });
           same != it->places.end())
    same->uses += isFrozen(plan, *it) ? 0 : 1;
  else
    it->places.push_back(place);
}

// A place of the parameters that the argument of forward joins, or of the one that it is.
Status addPlace(func::FuncOp forward, MeshAttr mesh, int64_t argument, const plan::Parameter::Place &place,
                plan::Plan &plan) {
  auto param = forward.getArgAttrOfType<DictionaryAttr>(argument, kParamAttr);
  RankedTensorType type = shardedType(forward.getArgAttr(argument, kTypeAttr));
  int64_t begin = 0;
  for (DictionaryAttr view : viewsOf(param)) {
    MGC_ASSIGN(parameter, describeView(view, type, alongOf(param)));
    parameter.rows = rowsOf(type, mesh, alongOf(param), begin);
    begin += positionsOf(view);
    const bool isNumbered = plan::isNumbered(parameter);
    add(std::move(parameter),
        isNumbered ? place : plan::Parameter::Place{place.stage, place.bucket, place.elementOffset}, plan);
  }
  return Status::ok();
}

} // namespace

Status addParameters(StageOp stage, const Blocks &blocks, plan::Plan &plan) {
  auto mesh = stage->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
  for (PlaceOp op : stage.all<PlaceOp>()) {
    const auto count = int64_t(op.getCount());
    const plan::Parameter::Place place = {int64_t(stage.getNumber()),
                                          int64_t(op.getBucket()),
                                          int64_t(op.getOffset()),
                                          int64_t(op.getFirst()),
                                          count,
                                          count > 1 ? int64_t(op.getStride()) : 0};
    MGC_TRY(addPlace(blocks.at(op.getBlock()).forward.function, mesh, op.getArgument(), place, plan));
  }
  return Status::ok();
}

} // namespace mgc
