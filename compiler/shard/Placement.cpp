#include "compiler/shard/Placement.h"

using namespace mlir;
using namespace mgc;

// Concatenation of the primitive axes of named ones.
static FailureOr<ArrayAttr> resolveAll(ModuleOp module, MeshAttr mesh, DictionaryAttr row) {
  auto list = row.getAs<ArrayAttr>("axes");
  if (!list)
    return module.emitError() << kPlacementAttr << ": row " << row << " has no list of axes";
  SmallVector<Attribute> axes;
  for (Attribute name : list) {
    auto text = dyn_cast<StringAttr>(name);
    if (!text)
      return module.emitError() << kPlacementAttr << ": row " << row << " holds " << name << "; expected axis names";
    if (!mesh.getMesh().named.contains(text.str()))
      return module.emitError() << kPlacementAttr << ": row " << row << " names the axis " << name
                                << ", which is none of " << mesh;
    llvm::append_range(axes, mesh.resolve(text.getValue()));
  }
  return ArrayAttr::get(module.getContext(), axes);
}

LogicalResult Placement::verify(function_ref<InFlightDiagnostic()> emitError, const Assignment &assignment,
                                const AxisRule *rule) {
  DenseMap<Attribute, StringAttr> owners;
  for (auto &[factor, axes] : assignment) {
    if (rule && (rule->isRing(factor) || rule->isMerged(factor) || rule->isPlacing(factor)))
      continue;
    for (StringAttr axis : axes.getAsRange<StringAttr>())
      if (auto [owner, isNew] = owners.try_emplace(axis, factor); !isNew)
        return emitError() << "axis '" << axis.getValue() << "' splits dimension '" << owner->second.getValue()
                           << "' and dimension '" << factor.getValue() << "'; expected rows of " << kPlacementAttr
                           << " without a common axis where their dimensions meet";
  }
  return success();
}

// The home types of all values are layouts.
LogicalResult Placement::verifyTensors(ModuleOp module) const {
  auto verify = [&](Type type, ValueKind kind) -> WalkResult {
    LayoutAttr names = layoutOf(type);
    auto emitError = [&] { return module.emitError() << "tensor with the dimensions " << names << ": "; };
    return names ? Placement::verify(emitError, homeAxes(names, kind)) : success();
  };
  WalkResult result = module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (verify(type, ValueKind::activation).wasInterrupted())
        return WalkResult::interrupt();
    auto function = dyn_cast<func::FuncOp>(op);
    for (auto [i, type] : llvm::enumerate(function ? function.getArgumentTypes() : ArrayRef<Type>())) {
      auto kind = function.getArgAttr(i, kParamAttr) ? ValueKind::parameter : ValueKind::activation;
      if (verify(type, kind).wasInterrupted())
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

FailureOr<Placement::Row> Placement::readRow(ModuleOp module, MeshAttr mesh, Attribute entry) {
  auto row = dyn_cast<DictionaryAttr>(entry);
  auto dimension = row ? row.getAs<StringAttr>("dimension") : StringAttr();
  if (!dimension)
    return module.emitError() << kPlacementAttr << ": row " << entry << " has no dimension";
  for (StringRef list : {"ops", "values"})
    if (Attribute names = row.get(list);
        names && !(isa<ArrayAttr>(names) && llvm::all_of(cast<ArrayAttr>(names), llvm::IsaPred<StringAttr>)))
      return module.emitError() << kPlacementAttr << ": row " << entry << ": " << list << " = " << names
                                << "; expected a list of names";
  auto axes = resolveAll(module, mesh, row);
  if (failed(axes))
    return failure();
  return Row{.dimension = dimension,
             .axes = *axes,
             .ops = row.getAs<ArrayAttr>("ops"),
             .values = row.getAs<ArrayAttr>("values"),
             .tag = row.getAs<StringAttr>("tag"),
             .with = row.getAs<StringAttr>("with"),
             .without = row.getAs<StringAttr>("without"),
             .yields = bool(row.get("yields"))};
}

FailureOr<Placement> Placement::of(ModuleOp module) {
  Placement placement;
  placement.mesh_ = module->getAttrOfType<MeshAttr>(kMeshAttr);
  auto table = module->getAttrOfType<ArrayAttr>(kPlacementAttr);
  if (!placement.mesh_ || !table)
    return module.emitError() << "needs the attributes " << kMeshAttr << " and " << kPlacementAttr;
  placement.none_ = ArrayAttr::get(module.getContext(), {});
  for (Attribute entry : table) {
    auto row = readRow(module, placement.mesh_, entry);
    if (failed(row))
      return failure();
    placement.rows_.push_back(*row);
  }
  if (failed(placement.verifyTensors(module)))
    return failure();
  return placement;
}

static bool lists(ArrayAttr names, StringRef name) {
  return llvm::is_contained(names.getAsValueRange<StringAttr>(), name);
}

bool Placement::Row::isFor(const Place &place) const {
  if (!place.op)
    return !ops && (!values || lists(values, place.kind == ValueKind::parameter ? "parameter" : "activation"));
  auto tagged = place.op->getAttrOfType<StringAttr>(kTagAttr);
  return !values && (!ops || lists(ops, place.op->getName().stripDialect())) && (!tag || tag == tagged);
}

bool Placement::Row::isBeside(ArrayRef<StringAttr> factors) const {
  return (!with || llvm::is_contained(factors, with)) && (!without || !llvm::is_contained(factors, without));
}

bool Placement::has(StringAttr name) const {
  return llvm::any_of(rows_, [&](const Row &row) { return row.dimension == name; });
}

// Rows for ops take the place of those for all.
SmallVector<const Placement::Row *> Placement::rowsOf(StringAttr factor, ArrayRef<StringAttr> factors,
                                                      const Place &place) const {
  SmallVector<const Row *> rows;
  for (const Row &row : rows_)
    if (row.dimension == factor && row.isFor(place) && row.isBeside(factors))
      rows.push_back(&row);
  if (llvm::any_of(rows, [](const Row *row) { return row->ops; }))
    llvm::erase_if(rows, [](const Row *row) { return !row->ops; });
  return rows;
}

Placement::Assignment Placement::assign(const AxisRule &rule, Operation *op) const {
  Assignment assignment = assign(rule.factors(), Place{op}, [&](StringAttr factor, const Row &row) {
    return !rule.isWhole(factor) && !rule.isMerged(factor) && (!rule.isRing(factor) || row.ops);
  });
  const auto assigned = [&](StringAttr factor) { return assignment.lookup(factor); };
  for (const AxisRule::Merged &merged : rule.merged)
    assignment[merged.whole] = ArrayAttr::get(mesh_.getContext(), rule.axesOf(merged, assigned));
  return assignment;
}

Placement::Assignment Placement::homeAxes(LayoutAttr names, ValueKind kind) const {
  return assign(names.getNames(), Place{nullptr, kind}, [](StringAttr, const Row &) { return true; });
}

Placement::Assignment Placement::assign(ArrayRef<StringAttr> factors, const Place &place, IsOpen isOpen) const {
  Assignment assignment;
  auto isUsed = [&](Attribute axis) {
    return llvm::any_of(assignment, [&](auto &entry) { return llvm::is_contained(entry.second, axis); });
  };
  for (StringAttr factor : factors)
    assignment.try_emplace(factor, none_);
  for (bool yields : {false, true})
    for (StringAttr factor : factors)
      for (const Row *row : rowsOf(factor, factors, place)) {
        if (row->yields != yields || !isOpen(factor, *row) || (yields && llvm::any_of(row->axes, isUsed)))
          continue;
        SmallVector<Attribute> axes(assignment[factor].begin(), assignment[factor].end());
        llvm::append_range(axes, row->axes);
        assignment[factor] = ArrayAttr::get(mesh_.getContext(), axes);
      }
  return assignment;
}

LayoutAttr Placement::home(LayoutAttr names, ValueKind kind) const { return restrict(names, homeAxes(names, kind)); }

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
