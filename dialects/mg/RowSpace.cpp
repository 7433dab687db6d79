// Iteration spaces from axis rules, and when two of them are one.
#include "dialects/mg/RowSpace.h"
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

using Kind = RowSpace::Kind;
using Dims = RowSpace::Dims;

Dims mgc::rowDims(Value value) {
  Dims dims;
  for (auto [name, size] : llvm::zip(layoutOf(value).getNames(), tensorOf(value).getShape()))
    dims.push_back({name, size});
  return dims;
}

RowSpace mgc::rowSpaceOf(Operation *op) {
  AxisRule rule = cast<ComputeOpInterface>(op).getAxisRule();
  Dims wide = rowDims(op->getResult(0));
  for (Value operand : op->getOperands())
    if (tensorOf(operand).getRank() > int64_t(wide.size()))
      wide = rowDims(operand);
  LayoutAttr result = layoutOf(op->getResult(0));
  auto isKept = [&](const RowSpace::NamedDim &dim) { return result.indexOf(dim.name) >= 0; };
  auto isWhole = [&](const RowSpace::NamedDim &dim) { return rule.isWhole(dim.name); };

  RowSpace space;
  bool reduces = !llvm::all_of(wide, isKept);
  bool reducesEnd = reduces && !isKept(wide.back());
  for (const RowSpace::NamedDim &dim : wide) {
    bool column = !reduces ? isWhole(dim) : reducesEnd ? !isKept(dim) : isKept(dim);
    (column ? space.columns : space.rows).push_back(dim);
  }
  if (reduces)
    space.kind = reducesEnd ? Kind::rows : Kind::columns;
  else if (!space.columns.empty())
    space.kind = Kind::rows;
  else if (!space.rows.empty())
    space.columns.push_back(space.rows.pop_back_val());
  return space;
}

static Dims allDims(const RowSpace &space) {
  Dims all = space.rows;
  all.append(space.columns);
  return all;
}

// An elementwise op in a space of fixed rows: over all of it, or one value per row.
static std::optional<RowSpace> fit(const RowSpace &fixed, const RowSpace &elementwise) {
  Dims dims = allDims(elementwise);
  if (dims == allDims(fixed) || dims == fixed.rows)
    return fixed;
  if (!fixed.columns.empty() || dims.size() < fixed.rows.size() ||
      ArrayRef(dims).take_front(fixed.rows.size()) != ArrayRef(fixed.rows))
    return std::nullopt;
  RowSpace merged = fixed;
  merged.columns.append(dims.begin() + fixed.rows.size(), dims.end());
  return merged;
}

bool mgc::isDoneAfterKernel(Operation *op, Value operand) {
  auto maker = operand.getDefiningOp<RowOpInterface>();
  return cast<RowOpInterface>(op).getLookupTable() == operand || (maker && maker.getRowSpace().kind == Kind::columns);
}

std::optional<RowSpace> mgc::mergeSpaces(const RowSpace &a, const RowSpace &b) {
  if (a.kind == Kind::alone || b.kind == Kind::alone)
    return std::nullopt;
  if (a.kind == Kind::columns && b.kind == Kind::elementwise)
    return allDims(a) == allDims(b) ? std::optional(a) : std::nullopt;
  if (a.kind == Kind::elementwise && b.kind == Kind::columns)
    return mergeSpaces(b, a);
  if (a.kind == Kind::columns || b.kind == Kind::columns)
    return a == b ? std::optional(a) : std::nullopt;
  if (a.kind == Kind::rows && b.kind == Kind::rows) {
    bool fits = a.rows == b.rows && (a.columns == b.columns || a.columns.empty() || b.columns.empty());
    return fits ? std::optional(a.columns.empty() ? b : a) : std::nullopt;
  }
  if (a.kind == Kind::rows)
    return fit(a, b);
  if (b.kind == Kind::rows)
    return fit(b, a);
  return allDims(a) == allDims(b) ? std::optional(a) : std::nullopt;
}
