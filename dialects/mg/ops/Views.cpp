// Parts of values: verifiers, rules, gradients, and where they lie.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/View.h"

using namespace mlir;
using namespace mgc;

namespace {

// The part's own dimension, which stands for `along`; null where it has none.
StringAttr ownName(Value part, Value whole, StringAttr along) {
  int64_t place = layoutOf(whole).indexOf(along);
  if (place < 0 || tensorOf(part).getRank() != tensorOf(whole).getRank())
    return {};
  return layoutOf(part).getNames()[place];
}

int64_t countOf(Value part, Value whole, StringAttr along) {
  StringAttr own = ownName(part, whole, along);
  return own ? tensorOf(part).getDimSize(layoutOf(part).indexOf(own)) : 1;
}

// Whether the part's names are those of the whole with `along` left out or replaced by a new one.
bool fits(Value part, Value whole, StringAttr along) {
  SmallVector<StringAttr> names(layoutOf(whole).getNames());
  int64_t place = layoutOf(whole).indexOf(along);
  ArrayRef<StringAttr> found = layoutOf(part).getNames();
  if (found.size() == names.size() && !llvm::is_contained(names, found[place]))
    names[place] = found[place];
  else
    names.erase(names.begin() + place);
  return found == ArrayRef<StringAttr>(names);
}

LogicalResult verifyAlong(Operation *op, ValueRange parts, Value whole, StringAttr along) {
  StringRef name = op->getName().stripDialect();
  if (!layoutOf(whole) || layoutOf(whole).indexOf(along) < 0)
    return op->emitOpError() << "the whole has no dimension " << along << " (" << name << "_c1)";
  int64_t positions = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (!layoutOf(part) || !fits(part, whole, along))
      return op->emitOpError() << "part " << i << " must have the names of the whole with " << along
                               << " left out or replaced by one of its own (" << name << "_c1)";
    positions += countOf(part, whole, along);
  }
  for (auto [i, part] : llvm::enumerate(parts))
    if (elementOf(part) != elementOf(whole))
      return op->emitOpError() << "part " << i << " is " << elementOf(part) << ", the whole " << elementOf(whole)
                               << "; expected one element type (" << name << "_c3)";
  int64_t expected = tensorOf(whole).getDimSize(layoutOf(whole).indexOf(along));
  if (positions != expected)
    return op->emitOpError() << "the parts take " << positions << " positions of " << along << ", which has "
                             << expected << " (" << name << "_c2)";
  return success();
}

// `along`, and each dimension that stands for it, is whole.
AxisRule ruleOf(Operation *op, StringRef text, ValueRange parts, Value whole, StringAttr along) {
  AxisRule rule = bindRule(op, text);
  if (!rule.error.empty())
    return rule;
  rule.whole = {along};
  for (Value part : parts)
    if (StringAttr own = ownName(part, whole, along))
      rule.whole.push_back(own);
  return rule;
}

} // namespace

// --- parts

StringRef PartsOp::getRuleText() { return "~.. -> .."; }

AxisRule PartsOp::getAxisRule() { return ruleOf(*this, getRuleText(), getParts(), getWhole(), getAlongAttr()); }

LogicalResult PartsOp::verify() { return verifyAlong(*this, getParts(), getWhole(), getAlongAttr()); }

LogicalResult PartsOp::buildGradient(GradientBuilder &g) {
  SmallVector<Value> parts;
  for (auto [i, part] : llvm::enumerate(getParts())) {
    parts.push_back(g.cotangent(part));
    if (!parts.back())
      return emitOpError() << "has no gradient: nothing depends on part " << i;
  }
  if (g.wants(getWhole()))
    g.contribute(getWhole(), g.make<JoinOp>(getWhole(), parts, getAlongAttr()));
  return success();
}

// --- join

StringRef JoinOp::getRuleText() { return "&.. -> .."; }

AxisRule JoinOp::getAxisRule() { return ruleOf(*this, getRuleText(), getParts(), getWhole(), getAlongAttr()); }

LogicalResult JoinOp::verify() { return verifyAlong(*this, getParts(), getWhole(), getAlongAttr()); }

LogicalResult JoinOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getWhole());
  if (!dy)
    return success();
  auto parts = PartsOp::create(g.builder(), g.loc(), getParts().getTypes(), dy, getAlongAttr());
  for (auto [part, gradient] : llvm::zip(getParts(), parts.getParts()))
    if (g.wants(part))
      g.contribute(part, gradient);
  return success();
}

// --- unzip, zip

static LogicalResult verifyPairs(Operation *op, Value pairs, StringRef constraint) {
  const int64_t size = tensorOf(pairs).getShape().back();
  return size == 2 ? success()
                   : op->emitOpError() << "the last dimension of the pairs has " << size << " positions; expected 2 ("
                                       << constraint << ")";
}
LogicalResult UnzipOp::verify() { return verifyPairs(*this, getPairs(), "unzip_c1"); }
LogicalResult ZipOp::verify() { return verifyPairs(*this, getPairs(), "zip_c1"); }

LogicalResult UnzipOp::buildGradient(GradientBuilder &g) {
  Value first = g.cotangent(getFirst()), second = g.cotangent(getSecond());
  if (!first || !second)
    return emitOpError() << "has no gradient: nothing depends on the " << (first ? "second" : "first")
                         << " of its results";
  if (!g.wants(getPairs()))
    return success();
  // Values that were added have equal gradients: a sum's pairs are written once.
  for (Operation *user : first.getUsers())
    if (auto made = dyn_cast<ZipOp>(user);
        made && made.getFirst() == first && made.getSecond() == second && made.getType() == getPairs().getType()) {
      g.contribute(getPairs(), made);
      return success();
    }
  g.contribute(getPairs(), g.make<ZipOp>(getPairs(), first, second));
  return success();
}

LogicalResult ZipOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getPairs());
  if (!dy)
    return success();
  auto parts = UnzipOp::create(g.builder(), g.loc(), TypeRange{getFirst().getType(), getSecond().getType()}, dy);
  for (auto [operand, gradient] : llvm::zip(getOperands(), parts.getResults()))
    if (g.wants(operand))
      g.contribute(operand, gradient);
  return success();
}

// Over all pairs, one element of each result.
static RowSpace spaceOfPairs(Value single) {
  RowSpace space{RowSpace::Kind::elementwise, rowDims(single), {}};
  if (!space.rows.empty())
    space.columns.push_back(space.rows.pop_back_val());
  return space;
}
RowSpace UnzipOp::getRowSpace() { return spaceOfPairs(getFirst()); }
RowSpace ZipOp::getRowSpace() { return spaceOfPairs(getFirst()); }

LogicalResult UnzipOp::emitRow(RowEmitter &e) {
  const StringAttr along = rowDims(getPairs()).back().name;
  for (auto [place, result] : llvm::enumerate(getResults()))
    e.define(result, e.value(getPairs(), {along, int64_t(place)}));
  return success();
}

LogicalResult ZipOp::emitRow(RowEmitter &e) {
  e.definePlaces(getPairs(), {e.value(getFirst()), e.value(getSecond())});
  return success();
}

// --- where they lie

// The view of one part; a part along the outermost dimension is one stretch.
static View partOf(ValueRange parts, Value whole, StringAttr along, size_t part) {
  int64_t place = layoutOf(whole).indexOf(along), inner = 1, begin = 0;
  ArrayRef<int64_t> sizes = tensorOf(whole).getShape();
  for (int64_t size : sizes.drop_front(place + 1))
    inner *= size;
  for (Value before : parts.take_front(part))
    begin += countOf(before, whole, along);
  return {whole, begin * inner, place == 0 ? rowgen::Pitch{} : rowgen::Pitch{place, sizes[place] * inner}};
}

Value mgc::unrenamed(Value value) {
  while (auto rename = value.getDefiningOp<RenameOp>())
    value = rename.getValue();
  return value;
}

JoinedAs mgc::joinedAs(Value value) {
  for (OpOperand &use : value.getUses()) {
    if (auto join = dyn_cast<JoinOp>(use.getOwner()))
      return {join, use.getOperandNumber()};
    if (auto rename = dyn_cast<RenameOp>(use.getOwner()))
      if (JoinedAs joined = joinedAs(rename.getResult()); joined.join)
        return joined;
  }
  return {};
}

View mgc::viewOf(Value value) {
  Value made = unrenamed(value);
  if (auto parts = made.getDefiningOp<PartsOp>())
    return partOf(parts.getParts(), parts.getWhole(), parts.getAlongAttr(), cast<OpResult>(made).getResultNumber());
  if (auto [join, part] = joinedAs(made); join && !isa<BlockArgument>(made))
    return partOf(join.getParts(), join.getWhole(), join.getAlongAttr(), part);
  return {made};
}

Value mgc::storageOf(Value value) {
  Value base = viewOf(value).base;
  return base == value ? value : storageOf(base);
}
