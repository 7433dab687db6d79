// Layout and mesh attributes: parsing, printing, verification, queries.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mgc;

#define GET_ATTRDEF_CLASSES
#include "MgAttributes.cpp.inc"

void MgDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "MgAttributes.cpp.inc"
      >();
}

static void printAxes(AsmPrinter &printer, ArrayAttr axes) {
  printer << "[";
  llvm::interleaveComma(axes.getAsRange<StringAttr>(), printer.getStream(),
                        [&](StringAttr axis) { printer << axis.getValue(); });
  printer << "]";
}

// `[a, b]` of bare names.
static FailureOr<ArrayAttr> parseAxes(AsmParser &parser) {
  SmallVector<Attribute> axes;
  auto element = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, element))
    return failure();
  return ArrayAttr::get(parser.getContext(), axes);
}

// --- layout
// ---------------------------------------------------------------------------------------------------------

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  ArrayAttr none = ArrayAttr::get(context, {}), pending = none;
  Reduction reduction = Reduction::sum;
  SmallVector<StringAttr> names;
  SmallVector<ArrayAttr> axes;
  auto entry = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    if (name == "sum" || name == "max") {
      auto list = parseAxes(parser);
      if (failed(list))
        return failure();
      pending = *list;
      reduction = name == "sum" ? Reduction::sum : Reduction::max;
      return success();
    }
    if (!pending.empty())
      return parser.emitError(parser.getCurrentLocation(), "a dimension after the pending reduction");
    names.push_back(StringAttr::get(context, name));
    axes.push_back(none);
    OptionalParseResult bracket = success();
    if (succeeded(parser.parseOptionalLSquare())) {
      SmallVector<Attribute> list;
      do {
        std::string axis;
        if (parser.parseKeywordOrString(&axis))
          return failure();
        list.push_back(StringAttr::get(context, axis));
      } while (succeeded(parser.parseOptionalComma()));
      if (parser.parseRSquare())
        return failure();
      axes.back() = ArrayAttr::get(context, list);
    }
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  if (pending.empty())
    reduction = Reduction::sum;
  return parser.getChecked<LayoutAttr>(context, names, axes, pending, reduction);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(llvm::zip(getNames(), getAxes()), printer.getStream(), [&](auto entry) {
    auto [name, axes] = entry;
    printer.printKeywordOrString(name.getValue());
    if (!axes.empty()) {
      printer << " ";
      printAxes(printer, axes);
    }
  });
  if (!getPending().empty()) {
    printer << (getNames().empty() ? "" : ", ") << (getReduction() == Reduction::sum ? "sum " : "max ");
    printAxes(printer, getPending());
  }
  printer << ">";
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> names,
                                 ArrayRef<ArrayAttr> axes, ArrayAttr pending, Reduction) {
  llvm::StringSet<> seenNames, seenAxes;
  if (names.size() != axes.size())
    return emitError() << "as many axis lists as names expected";
  for (StringAttr name : names)
    if (!seenNames.insert(name.getValue()).second || name == "sum" || name == "max")
      return emitError() << "dimension name '" << name.getValue() << "' repeated or reserved (layout_c1)";
  auto once = [&](ArrayAttr list) -> LogicalResult {
    for (StringAttr axis : list.getAsRange<StringAttr>())
      if (!seenAxes.insert(axis.getValue()).second)
        return emitError() << "axis '" << axis.getValue() << "' occurs twice in one layout (layout_c2)";
    return success();
  };
  for (ArrayAttr list : axes)
    if (failed(once(list)))
      return failure();
  return once(pending);
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getNames().size())
    return emitError() << "layout names " << getNames().size() << " dimensions of a tensor of rank "
                       << shape.size() << " (layout_c3)";
  if (ShapedType::isDynamicShape(shape))
    return emitError() << "a tensor with a layout has sizes that are known; found '?' (layout_c4)";
  return success();
}

LayoutAttr LayoutAttr::get(MLIRContext *context, ArrayRef<StringAttr> names) {
  ArrayAttr none = ArrayAttr::get(context, {});
  SmallVector<ArrayAttr> axes(names.size(), none);
  return get(context, names, axes, none, Reduction::sum);
}

LayoutAttr LayoutAttr::get(MLIRContext *context, ArrayRef<StringRef> names) {
  return get(context,
             llvm::map_to_vector(names, [&](StringRef name) { return StringAttr::get(context, name); }));
}

int64_t LayoutAttr::indexOf(StringAttr name) const {
  auto it = llvm::find(getNames(), name);
  return it == getNames().end() ? -1 : it - getNames().begin();
}

ArrayAttr LayoutAttr::axesOf(StringAttr name) const {
  int64_t index = indexOf(name);
  return index < 0 ? ArrayAttr::get(getContext(), {}) : getAxes()[index];
}

bool LayoutAttr::isLogical() const {
  return isComplete() && llvm::all_of(getAxes(), [](ArrayAttr axes) { return axes.empty(); });
}

LayoutAttr LayoutAttr::withPending(ArrayAttr pending, Reduction reduction) const {
  // With nothing pending the reduction has no meaning and is not printed: equal layouts must be equal
  // attributes.
  return get(getContext(), getNames(), getAxes(), pending, pending.empty() ? Reduction::sum : reduction);
}

// --- mesh
// -----------------------------------------------------------------------------------------------------------

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  SmallVector<NamedAttribute> named;
  auto entry = [&]() -> ParseResult {
    std::string name;
    int64_t size = 0;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual())
      return failure();
    OptionalParseResult integer = parser.parseOptionalInteger(size);
    if (integer.has_value()) {
      if (failed(*integer))
        return failure();
      names.push_back(StringAttr::get(context, name));
      sizes.push_back(size);
      return success();
    }
    auto list = parseAxes(parser);
    if (failed(list))
      return failure();
    named.push_back({StringAttr::get(context, name), *list});
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  if (auto twice = DictionaryAttr::findDuplicate(named, /*isSorted=*/false)) {
    parser.emitError(parser.getCurrentLocation(), "axis '")
        << twice->getName().getValue() << "' is named twice (mesh_c1)";
    return {};
  }
  return parser.getChecked<MeshAttr>(context, names, sizes, DictionaryAttr::get(context, named));
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes, DictionaryAttr named) {
  constexpr int64_t kMostRanks = int64_t(1) << 31;
  llvm::SmallDenseSet<StringAttr> seen;
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (!seen.insert(name).second || named.contains(name))
      return emitError() << "axis '" << name.getValue() << "' is named twice (mesh_c1)";
    if (size < 2)
      return emitError() << "axis '" << name.getValue() << "' of extent " << size
                         << "; axes of a mesh have extent 2 or more (mesh_c2)";
    if (size > kMostRanks / ranks)
      return emitError() << "axis '" << name.getValue() << "' of extent " << size << " makes more than "
                         << kMostRanks << " ranks (mesh_c2)";
    ranks *= size;
  }
  for (NamedAttribute list : named) {
    llvm::SmallDenseSet<StringAttr> listed;
    for (StringAttr axis : cast<ArrayAttr>(list.getValue()).getAsRange<StringAttr>())
      if (!seen.contains(axis) || !listed.insert(axis).second)
        return emitError() << "named axis '" << list.getName().getValue() << "' lists '" << axis.getValue()
                           << "', which is no axis of the mesh or stands there twice (mesh_c3)";
  }
  return success();
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  bool first = true;
  auto comma = [&] { printer << (std::exchange(first, false) ? "" : ", "); };
  for (auto [name, size] : llvm::zip(getNames(), getSizes())) {
    comma();
    printer.printKeywordOrString(name.getValue());
    printer << " = " << size;
  }
  for (NamedAttribute alias : getNamed()) {
    comma();
    printer.printKeywordOrString(alias.getName().getValue());
    printer << " = ";
    printAxes(printer, cast<ArrayAttr>(alias.getValue()));
  }
  printer << ">";
}

int64_t MeshAttr::sizeOf(StringRef axis) const {
  for (auto [name, size] : llvm::zip(getNames(), getSizes()))
    if (name == axis)
      return size;
  return 1;
}

int64_t MeshAttr::sizeOf(ArrayAttr axes) const {
  int64_t product = 1;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    product *= sizeOf(axis.getValue());
  return product;
}

ArrayAttr MeshAttr::resolve(StringRef name) const {
  if (Attribute list = getNamed().get(name))
    return cast<ArrayAttr>(list);
  for (StringAttr axis : getNames())
    if (axis == name)
      return ArrayAttr::get(getContext(), {axis});
  return ArrayAttr::get(getContext(), {});
}

int64_t MeshAttr::worldSize() const {
  int64_t product = 1;
  for (int64_t size : getSizes())
    product *= size;
  return product;
}

LogicalResult MeshAttr::verifyAxes(function_ref<InFlightDiagnostic()> emitError, ArrayAttr axes) const {
  llvm::SmallDenseSet<Attribute> seen;
  for (Attribute axis : axes) {
    if (!llvm::is_contained(getNames(), axis))
      return emitError() << "names the axis " << axis << ", which is none of " << *this << " (mesh_c4)";
    if (!seen.insert(axis).second)
      return emitError() << "names the axis " << axis << " twice in " << axes << " (mesh_c4)";
  }
  return success();
}

LogicalResult MeshAttr::verifyType(function_ref<InFlightDiagnostic()> emitError, Type type) const {
  LayoutAttr layout = layoutOf(type);
  if (!layout)
    return emitError() << "has a value of type " << type << ", which has no #mg.layout";
  for (auto [name, axes, size] :
       llvm::zip(layout.getNames(), layout.getAxes(), cast<RankedTensorType>(type).getShape())) {
    if (failed(verifyAxes(emitError, axes)))
      return failure();
    int64_t extent = sizeOf(axes), below = size / extent * extent;
    if (size == below)
      continue;
    InFlightDiagnostic error = emitError();
    error << "dimension '" << name.getValue() << "' of size " << size << " does not divide over " << axes
          << " of extent " << extent << "; possible sizes: ";
    if (below > 0)
      error << below << ", ";
    return error << below + extent << " (mesh_c5)";
  }
  return verifyAxes(emitError, layout.getPending());
}
