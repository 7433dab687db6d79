// See RuleTable.h.
#include "frontend/import/RuleTable.h"

#include "MegatronRules.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/base/Problems.h"

using namespace mlir;

namespace mgc::frontend {
namespace {

constexpr int64_t kMaxRulesBytes = 1 << 20;

using Names = std::set<std::string>;

// Names that rows may use.
struct KnownNames {
  Names dimensions, axes, ops;
  const Names values = {"activation", "parameter"};
  Names options, on; // switches of mg.training, for `when`, and those that are on

  explicit KnownNames(ModuleOp module) {
    module.walk([&](func::FuncOp function) {
      function.walk([&](Block *block) { addTypes(block->getArgumentTypes()); });
      function.walk([&](Operation *op) { addTypes(op->getResultTypes()); });
    });
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    for (const auto &[name, axes_] : mesh.getMesh().named)
      if (!plan::hasStages(mesh.getMesh(), {name}))
        axes.insert(name);
    for (RegisteredOperationName op : module.getContext()->getRegisteredOperations())
      if (op.hasInterface<ComputeOpInterface>())
        ops.insert(op.stripDialect().str());
    forEachTrainingField([&](std::string_view name, auto member) {
      if constexpr (std::is_same_v<decltype(member), bool TrainingSettings::*>) {
        options.emplace(name);
        if (trainingOf(module).*member)
          on.emplace(name);
      }
    });
  }

private:
  void addTypes(TypeRange types) {
    for (Type type : types)
      if (LayoutAttr layout = layoutOf(type))
        for (StringAttr name : layout.getNames())
          dimensions.insert(name.str());
  }
};

// One row of the table; names that are not known are problems.
class RowReader {
public:
  RowReader(ModuleOp module, const KnownNames &known, const std::string &place, Problems &problems)
      : builder_(module.getContext()), known_(known), place_(place), problems_(problems) {}

  // Nothing where the row's option is off.
  std::optional<DictionaryAttr> read(const nlohmann::json &row) {
    if (!row.is_object()) {
      problems_.add("{}: is no object; expected {{\"dimension\": NAME, \"axes\": [NAME, ..]}}", place_);
      return std::nullopt;
    }
    for (const char *key : {"dimension", "axes"})
      if (!row.contains(key))
        problems_.add("{}: has no {}", place_, key);
    for (const auto &[key, value] : row.items())
      readField(key, value);
    if (!isOn_)
      return std::nullopt;
    return fields_.getDictionary(builder_.getContext());
  }

private:
  void readField(const std::string &key, const nlohmann::json &value) {
    if (key == "dimension" || key == "with" || key == "without")
      fields_.append(key, name(key, value, known_.dimensions));
    else if (key == "axes")
      fields_.append(key, list(key, value, known_.axes));
    else if (key == "ops")
      fields_.append(key, list(key, value, known_.ops));
    else if (key == "values")
      fields_.append(key, list(key, value, known_.values));
    else if (key == "tag" && value.is_string())
      fields_.append(key, builder_.getStringAttr(value.get<std::string>()));
    else if (key == "when")
      isOn_ = known_.on.contains(name(key, value, known_.options).str());
    else if (key == "yields" && value.is_boolean())
      value.get<bool>() ? fields_.append(key, builder_.getUnitAttr()) : void();
    else
      problems_.add("{}: {} = {} is not understood; a row has dimension, axes, ops, values, tag, with, without, "
                    "yields (true or false) and when",
                    place_, printable(key), printable(value.dump()));
  }

  StringAttr name(const std::string &key, const nlohmann::json &value, const Names &allowed) {
    if (value.is_string() && allowed.contains(value.get<std::string>()))
      return builder_.getStringAttr(value.get<std::string>());
    problems_.add("{}: {} = {} is none of {}", place_, key, printable(value.dump()), fmt::join(allowed, ", "));
    return builder_.getStringAttr("");
  }

  ArrayAttr list(const std::string &key, const nlohmann::json &values, const Names &allowed) {
    SmallVector<Attribute> names;
    if (!values.is_array())
      problems_.add("{}: {} = {} is no list of names", place_, key, printable(values.dump()));
    else
      for (const nlohmann::json &value : values)
        names.push_back(name(key, value, allowed));
    return builder_.getArrayAttr(names);
  }

  Builder builder_;
  const KnownNames &known_;
  std::string place_;
  Problems &problems_;
  NamedAttrList fields_;
  bool isOn_ = true;
};

// Whether the row is of dimensions that the model has.
bool isOfModel(const nlohmann::json &row, const KnownNames &known) {
  const auto has = [&](const char *key) {
    return !row.contains(key) || known.dimensions.contains(row[key].get<std::string>());
  };
  return has("dimension") && has("with");
}

// `skipsOthers`: rows of dimensions that the model lacks are left out, not refused.
Result<ArrayAttr> readTable(ModuleOp module, const std::string &text, const std::string &source,
                            bool skipsOthers = false) {
  MGC_ASSIGN(table, parseJson(text).at(source));
  if (!table.is_array())
    return errorf("{}: holds no JSON list; expected rows {{\"dimension\": NAME, \"axes\": [NAME, ..]}}", source);
  const KnownNames known(module);
  Problems problems(source);
  SmallVector<Attribute> rows;
  for (const auto &[number, row] : llvm::enumerate(table))
    if (skipsOthers && !isOfModel(row, known))
      continue;
    else if (auto read = RowReader(module, known, fmt::format("row {}", number), problems).read(row))
      rows.push_back(*read);
  MGC_TRY(problems.status());
  return ArrayAttr::get(module.getContext(), rows);
}

} // namespace

void setMegatronRules(ModuleOp module) {
  module->setAttr(kPlacementAttr, readTable(module, kMegatronRules, "megatron-rules.json", true).take());
}

Status setRules(ModuleOp module, const std::string &path) {
  for (StringRef name : {StringRef(kMeshAttr), StringRef(kTrainingAttr)})
    if (!module->hasAttr(name))
      return errorf("the module has no {}", name.str());
  MGC_ASSIGN(text, readFile(path, kMaxRulesBytes));
  MGC_ASSIGN(rows, readTable(module, text, path));
  module->setAttr(kPlacementAttr, rows);
  return Status::ok();
}

} // namespace mgc::frontend
