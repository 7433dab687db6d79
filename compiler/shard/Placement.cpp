#include "compiler/shard/Placement.h"

using namespace mlir;
using namespace mgc;

// Concatenation of the primitive axes of named ones.
static FailureOr<ArrayAttr> resolveAll(ModuleOp module, MeshAttr mesh, StringAttr row, Attribute names) {
  SmallVector<Attribute> axes;
  auto list = dyn_cast_or_null<ArrayAttr>(names);
  if (!list)
    return module.emitError() << kPlacementAttr << ": row '" << row.getValue()
                              << "' is no list of axis names";
  for (Attribute name : list) {
    auto text = dyn_cast<StringAttr>(name);
    if (!text)
      return module.emitError() << kPlacementAttr << ": row '" << row.getValue() << "' holds " << name
                                << "; expected axis names";
    llvm::append_range(axes, mesh.resolve(text.getValue()));
  }
  return ArrayAttr::get(module.getContext(), axes);
}

// An axis that two of these lists have, or one of them twice; null: none.
static StringAttr sharedAxis(ArrayRef<ArrayAttr> lists) {
  DenseSet<Attribute> seen;
  for (ArrayAttr list : lists)
    for (Attribute axis : list)
      if (!seen.insert(axis).second)
        return cast<StringAttr>(axis);
  return {};
}

// No tensor may be split over one axis along two of its dimensions: home() of its type would be no layout.
LogicalResult Placement::verifyTensors(ModuleOp module) const {
  auto verify = [&](Type type) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto layout = tensor ? dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
    if (!layout)
      return success();
    Assignment assignment = assign(layout.getNames());
    SmallVector<ArrayAttr> lists;
    for (StringAttr name : layout.getNames())
      lists.push_back(assignment.find(name)->second);
    if (StringAttr axis = sharedAxis(lists))
      return module.emitError()
             << kPlacementAttr << ": splits a tensor with the dimensions " << layout << " along axis '"
             << axis.getValue()
             << "' more than once; expected rows without a common axis where their dimensions "
                "meet in one tensor";
    return success();
  };
  WalkResult result = module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(verify(type)))
        return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (failed(verify(type)))
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

FailureOr<Placement> Placement::of(ModuleOp module) {
  Placement placement;
  placement.mesh_ = module->getAttrOfType<MeshAttr>(kMeshAttr);
  auto table = module->getAttrOfType<DictionaryAttr>(kPlacementAttr);
  if (!placement.mesh_ || !table)
    return module.emitError() << "needs the attributes " << kMeshAttr << " and " << kPlacementAttr;
  placement.none_ = ArrayAttr::get(module.getContext(), {});
  for (NamedAttribute entry : table) {
    auto conditional = dyn_cast<DictionaryAttr>(entry.getValue());
    auto axes = resolveAll(module, placement.mesh_, entry.getName(),
                           conditional ? conditional.get("axes") : entry.getValue());
    if (failed(axes))
      return failure();
    Row row{*axes, {}, placement.none_};
    if (conditional && conditional.get("extra")) {
      auto extra = resolveAll(module, placement.mesh_, entry.getName(), conditional.get("extra"));
      row.with = conditional.getAs<StringAttr>("with");
      if (failed(extra) || !row.with)
        return module.emitError() << kPlacementAttr << ": row '" << entry.getName().getValue()
                                  << "' needs `with` beside `extra`";
      row.extra = *extra;
      row.without = conditional.getAs<StringAttr>("without");
    }
    placement.rows_.try_emplace(entry.getName(), row);
  }
  if (failed(placement.verifyTensors(module)))
    return failure();
  return placement;
}

Placement::Assignment Placement::assign(ArrayRef<StringAttr> factors, ArrayRef<StringAttr> whole) const {
  Assignment assignment;
  auto isUsed = [&](Attribute axis) {
    return llvm::any_of(assignment, [&](auto &entry) { return llvm::is_contained(entry.second, axis); });
  };
  for (StringAttr factor : factors) {
    auto row = rows_.find(factor);
    bool takes = row != rows_.end() && !llvm::is_contained(whole, factor);
    assignment.try_emplace(factor, takes ? row->second.axes : none_);
  }
  for (StringAttr factor : factors) {
    auto row = rows_.find(factor);
    if (row == rows_.end() || llvm::is_contained(whole, factor) || row->second.extra.empty() ||
        !llvm::is_contained(factors, row->second.with) || llvm::is_contained(factors, row->second.without) ||
        llvm::any_of(row->second.extra, isUsed))
      continue;
    SmallVector<Attribute> axes(assignment[factor].begin(), assignment[factor].end());
    llvm::append_range(axes, row->second.extra);
    assignment[factor] = ArrayAttr::get(mesh_.getContext(), axes);
  }
  return assignment;
}

LayoutAttr Placement::home(LayoutAttr names) const { return restrict(names, assign(names.getNames())); }

LayoutAttr Placement::restrict(LayoutAttr names, const Assignment &assignment) const {
  SmallVector<ArrayAttr> axes;
  for (StringAttr name : names.getNames()) {
    auto it = assignment.find(name);
    axes.push_back(it == assignment.end() ? none_ : it->second);
  }
  return LayoutAttr::get(mesh_.getContext(), names.getNames(), axes, none_, Reduction::sum);
}

ArrayAttr Placement::inMeshOrder(ArrayRef<Attribute> axes) const {
  SmallVector<Attribute> ordered;
  for (StringAttr axis : mesh_.getNames())
    if (llvm::is_contained(axes, Attribute(axis)))
      ordered.push_back(axis);
  return ArrayAttr::get(mesh_.getContext(), ordered);
}
