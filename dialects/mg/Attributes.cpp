// Layout and mesh attributes: parsing, printing, verification, queries.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/ranges.h>

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

// `[a, b, stages<0, 3>]`: bare names, and ties of stages.
static void printAxes(AsmPrinter &printer, ArrayAttr axes) {
  printer << "[";
  llvm::interleaveComma(axes, printer.getStream(), [&](Attribute axis) {
    if (auto stages = dyn_cast<DenseI64ArrayAttr>(axis))
      printer << "stages<" << fmt::format("{}", fmt::join(stages.asArrayRef(), ", ")) << ">";
    else
      printer << cast<StringAttr>(axis).getValue();
  });
  printer << "]";
}

static FailureOr<ArrayAttr> parseAxes(AsmParser &parser) {
  SmallVector<Attribute> axes;
  auto element = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    if (name != "stages" || failed(parser.parseOptionalLess())) {
      axes.push_back(StringAttr::get(parser.getContext(), name));
      return success();
    }
    SmallVector<int64_t> stages;
    if (parser.parseCommaSeparatedList([&] { return parser.parseInteger(stages.emplace_back()); }) ||
        parser.parseGreater())
      return failure();
    axes.push_back(DenseI64ArrayAttr::get(parser.getContext(), stages));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, element))
    return failure();
  return ArrayAttr::get(parser.getContext(), axes);
}

ArrayAttr mgc::namesIn(ArrayAttr pending) {
  SmallVector<Attribute> names;
  llvm::copy_if(pending, std::back_inserter(names), llvm::IsaPred<StringAttr>);
  return ArrayAttr::get(pending.getContext(), names);
}

// --- layout

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
  for (Attribute entry : pending)
    if (auto stages = dyn_cast<DenseI64ArrayAttr>(entry);
        stages && (stages.size() < 2 || !llvm::is_sorted(stages.asArrayRef(), std::less_equal<>())))
      return emitError() << "a value is pending over stages<" << fmt::format("{}", fmt::join(stages.asArrayRef(), ", "))
                         << ">; expected two or more, in ascending order (layout_c5)";
  llvm::SmallDenseSet<Attribute> ties;
  for (Attribute entry : pending)
    if (isa<DenseI64ArrayAttr>(entry) && !ties.insert(entry).second)
      return emitError() << "a value is pending over one tie twice (layout_c5)";
  return once(namesIn(pending));
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getNames().size())
    return emitError() << "layout names " << getNames().size() << " dimensions of a tensor of rank " << shape.size()
                       << " (layout_c3)";
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
  return get(context, llvm::map_to_vector(names, [&](StringRef name) { return StringAttr::get(context, name); }));
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
  // With nothing pending the reduction has no meaning and is not printed: equal layouts must be equal attributes.
  return get(getContext(), getNames(), getAxes(), pending, pending.empty() ? Reduction::sum : reduction);
}

// --- mesh

llvm::hash_code mgc::plan::hash_value(const Mesh &mesh) {
  llvm::hash_code hash(mesh.axes.size());
  for (const Axis &axis : mesh.axes)
    hash = llvm::hash_combine(hash, axis.name, axis.size, axis.role);
  for (const auto &[name, axes] : mesh.named)
    hash = llvm::hash_combine(hash, name, llvm::hash_combine_range(axes.begin(), axes.end()));
  return hash;
}

static FailureOr<plan::AxisRole> parseRole(AsmParser &parser) {
  constexpr const auto &names = plan::enumNames<plan::AxisRole>;
  StringRef name;
  if (failed(parser.parseOptionalColon()))
    return plan::AxisRole::tensor;
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  const auto *role = llvm::find(names, std::string_view(name));
  if (role == names.end())
    return parser.emitError(where) << "'" << name << "' is no role of an axis; expected "
                                   << fmt::format("{}", fmt::join(names, ", "));
  return static_cast<plan::AxisRole>(role - names.begin());
}

plan::Axes mgc::axesOf(ArrayAttr axes) {
  plan::Axes names;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    names.push_back(axis.str());
  return names;
}

ArrayAttr mgc::axesAttr(MLIRContext *context, const plan::Axes &axes) {
  SmallVector<Attribute> names;
  for (const std::string &axis : axes)
    names.push_back(StringAttr::get(context, axis));
  return ArrayAttr::get(context, names);
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  plan::Mesh mesh;
  auto entry = [&]() -> ParseResult {
    std::string name;
    int64_t size = 0;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeywordOrString(&name) || parser.parseEqual())
      return failure();
    if (!mesh.named.try_emplace(name).second)
      return parser.emitError(where) << "axis '" << name << "' is named twice (mesh_c1)";
    OptionalParseResult integer = parser.parseOptionalInteger(size);
    if (!integer.has_value()) {
      auto list = parseAxes(parser);
      if (succeeded(list))
        mesh.named[name] = mgc::axesOf(*list);
      return success(succeeded(list));
    }
    if (failed(*integer))
      return failure();
    auto role = parseRole(parser);
    if (failed(role))
      return failure();
    mesh.axes.push_back({name, size, *role});
    mesh.named[name] = {name};
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(), mesh);
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, plan::Mesh mesh) {
  constexpr int64_t kMostRanks = int64_t(1) << 31;
  llvm::StringSet<> seen;
  int64_t ranks = 1;
  for (const plan::Axis &axis : mesh.axes) {
    if (!seen.insert(axis.name).second)
      return emitError() << "axis '" << axis.name << "' is named twice (mesh_c1)";
    if (axis.size < 2)
      return emitError() << "axis '" << axis.name << "' of extent " << axis.size
                         << "; axes of a mesh have extent 2 or more (mesh_c2)";
    if (axis.size > kMostRanks / ranks)
      return emitError() << "axis '" << axis.name << "' of extent " << axis.size << " makes more than " << kMostRanks
                         << " ranks (mesh_c2)";
    ranks *= axis.size;
  }
  for (const auto &[name, axes] : mesh.named) {
    llvm::StringSet<> listed;
    for (const std::string &axis : axes)
      if (!seen.contains(axis) || !listed.insert(axis).second)
        return emitError() << "named axis '" << name << "' lists '" << axis
                           << "', which is no axis of the mesh or stands there twice (mesh_c3)";
  }
  return success();
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  bool first = true;
  auto begin = [&](StringRef name) {
    printer << (std::exchange(first, false) ? "" : ", ");
    printer.printKeywordOrString(name);
    printer << " = ";
  };
  llvm::StringSet<> primitive;
  for (const plan::Axis &axis : getMesh().axes) {
    primitive.insert(axis.name);
    begin(axis.name);
    printer << axis.size;
    if (axis.role != plan::AxisRole::tensor)
      printer << " : " << plan::enumNames<plan::AxisRole>[size_t(axis.role)];
  }
  for (const auto &[name, axes] : getMesh().named) {
    if (primitive.contains(name)) // names itself
      continue;
    begin(name);
    printAxes(printer, axesAttr(getContext(), axes));
  }
  printer << ">";
}

SmallVector<StringAttr> MeshAttr::getNames() const {
  return llvm::map_to_vector(getMesh().axes,
                             [&](const plan::Axis &axis) { return StringAttr::get(getContext(), axis.name); });
}

ArrayAttr MeshAttr::axesOf(plan::AxisRole role) const { return axesAttr(getContext(), plan::axesOf(getMesh(), role)); }

plan::AxisRole MeshAttr::roleOf(StringAttr axis) const {
  return llvm::find_if(getMesh().axes, [&](const plan::Axis &one) { return axis == one.name; })->role;
}

int64_t MeshAttr::sizeOf(ArrayAttr axes) const {
  int64_t product = 1;
  for (StringAttr name : axes.getAsRange<StringAttr>())
    for (const plan::Axis &axis : getMesh().axes)
      product *= name == axis.name ? axis.size : 1;
  return product;
}

ArrayAttr MeshAttr::resolve(StringRef name) const {
  auto axes = getMesh().named.find(name.str());
  return axesAttr(getContext(), axes == getMesh().named.end() ? plan::Axes() : axes->second);
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
  return verifyAxes(emitError, namesIn(layout.getPending()));
}
