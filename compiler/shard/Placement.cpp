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
    if (!mesh.getNamed().contains(text) && !llvm::is_contained(mesh.getNames(), text))
      return module.emitError() << kPlacementAttr << ": row '" << row.getValue() << "' names the axis "
                                << name << ", which is none of " << mesh;
    llvm::append_range(axes, mesh.resolve(text.getValue()));
  }
  return ArrayAttr::get(module.getContext(), axes);
}

LogicalResult Placement::verify(function_ref<InFlightDiagnostic()> emitError, const Assignment &assignment) {
  DenseMap<Attribute, StringAttr> owners;
  for (auto &[factor, axes] : assignment)
    for (StringAttr axis : axes.getAsRange<StringAttr>())
      if (auto [owner, isNew] = owners.try_emplace(axis, factor); !isNew)
        return emitError() << "axis '" << axis.getValue() << "' splits dimension '"
                           << owner->second.getValue() << "' and dimension '" << factor.getValue()
                           << "'; expected rows of " << kPlacementAttr
                           << " without a common axis where their dimensions meet";
  return success();
}

// Home types are layouts.
LogicalResult Placement::verifyTensors(ModuleOp module) const {
  auto verify = [&](Type type) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto layout = tensor ? dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
    if (!layout)
      return success();
    auto emitError = [&] { return module.emitError() << "tensor with the dimensions " << layout << ": "; };
    return Placement::verify(emitError, assign(layout.getNames()));
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
