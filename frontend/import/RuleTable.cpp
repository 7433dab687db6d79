// See Placement.h.
#include "frontend/import/RuleTable.h"

#include "frontend/model/Lists.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/base/Problems.h"

using namespace mlir;

namespace mgc::frontend {
namespace {

constexpr int64_t kMaxRulesBytes = 1 << 20;
constexpr StringLiteral kDimensions[] = {"s", "b", "h", "g", "r", "d", "f", "v", "t", "p"};

// Axes a table may name: all that do not hold pipeline stages. cp is accepted although its extent is
// always 1.
std::vector<std::string> axesOf(MeshAttr mesh) {
  std::vector<std::string> names = {"cp"};
  auto add = [&](StringRef name) {
    if (name != "pp" && !llvm::is_contained(names, name.str()))
      names.push_back(name.str());
  };
  for (StringAttr axis : mesh.getNames())
    add(axis.getValue());
  for (NamedAttribute entry : mesh.getNamed())
    add(entry.getName().getValue());
  llvm::sort(names);
  return names;
}

class RuleTableReader {
public:
  RuleTableReader(MLIRContext *context, MeshAttr mesh, const std::string &path)
      : builder(context), axes(axesOf(mesh)), path(path), problems(path) {}

  Result<DictionaryAttr> read(const nlohmann::json &table) {
    SmallVector<NamedAttribute> rows;
    if (!table.is_object())
      return errorf("{}: holds no JSON object; expected dimension names with lists of axes", path);
    for (const auto &[name, row] : table.items()) {
      if (isDimension(name, name))
        rows.push_back(builder.getNamedAttr(name, rowOf(name, row)));
    }
    MGC_TRY(problems.status());
    return builder.getDictionaryAttr(rows);
  }

private:
  bool isDimension(const std::string &place, const std::string &name) {
    bool known = llvm::is_contained(kDimensions, StringRef(name));
    if (!known) {
      problems.add("{}: '{}' is no dimension", printable(place), printable(name));
      problems.hint("dimensions: {}", fmt::join(kDimensions, ", "));
    }
    return known;
  }

  Attribute rowOf(const std::string &name, const nlohmann::json &row) {
    if (!row.is_object())
      return listOf(name, row);
    SmallVector<NamedAttribute> entries;
    for (const auto &[key, value] : row.items()) {
      if (key == "axes" || key == "extra")
        entries.push_back(builder.getNamedAttr(key, listOf(name + "." + key, value)));
      else if ((key == "with" || key == "without") && value.is_string() &&
               isDimension(name + "." + key, value.get_ref<const std::string &>()))
        entries.push_back(
            builder.getNamedAttr(key, builder.getStringAttr(value.get_ref<const std::string &>())));
      else if ((key != "with" && key != "without") || !value.is_string())
        problems.add("{}.{}: not understood; a row has axes, with, extra and without", name, printable(key));
    }
    if (!row.contains("axes") || row.contains("with") != row.contains("extra"))
      problems.add("{}: a row needs axes, and with and extra together or not at all", name);
    if (row.contains("without") && !row.contains("extra"))
      problems.add("{}: without says where extra is not taken, and there is no extra", name);
    return builder.getDictionaryAttr(entries);
  }

  ArrayAttr listOf(const std::string &place, const nlohmann::json &list) {
    SmallVector<Attribute> names;
    if (!list.is_array())
      problems.add("{}: expected a list of axis names", printable(place));
    else
      for (const nlohmann::json &name : list) {
        if (name.is_string() && llvm::is_contained(axes, name.get_ref<const std::string &>())) {
          names.push_back(builder.getStringAttr(name.get_ref<const std::string &>()));
          continue;
        }
        problems.add("{}: {} is no axis that can split a dimension", printable(place),
                     printable(name.dump()));
        problems.hint("axes of this layout: {}", fmt::join(axes, ", "));
      }
    return builder.getArrayAttr(names);
  }

  Builder builder;
  std::vector<std::string> axes;
  std::string path;
  Problems problems;
};

} // namespace

Status setPlacement(ModuleOp module, const std::string &path) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  if (!mesh)
    return errorf("the module has no {}", kMeshAttr.str());
  MGC_ASSIGN(text, readFile(path, kMaxRulesBytes));
  Result<nlohmann::json> table = parseJson(text);
  if (!table.isOk())
    return Status(table.status()).at(path);
  Result<DictionaryAttr> placement = RuleTableReader(module.getContext(), mesh, path).read(*table);
  if (!placement.isOk())
    return placement.status();
  module->setAttr(kPlacementAttr, *placement);
  return Status::ok();
}

} // namespace mgc::frontend
