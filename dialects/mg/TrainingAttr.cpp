// #mg.training: a list of fields, `name = value`, of which each value is written as the builtin attribute of its kind.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"
#include "plan/Optimizers.h"
#include "llvm/ADT/StringSet.h"

#include <fmt/ranges.h>

using namespace mlir;
using namespace mgc;

// --- Values as builtin attributes ---------------------------------------------------------------------------

static constexpr std::pair<llvm::StringLiteral, int64_t plan::Images::*> kImageNumbers[] = {
    {"channels", &plan::Images::channels},
    {"patch_size", &plan::Images::patchSize},
    {"rows", &plan::Images::rows},
    {"columns", &plan::Images::columns},
    {"class_tokens", &plan::Images::classTokens},
    {"token", &plan::Images::token},
    {"first_feature", &plan::Images::firstFeature}};

static StringRef textOf(std::string_view text) { return {text.data(), text.size()}; }

static Attribute attributeOf(Builder &builder, int64_t number) { return builder.getI64IntegerAttr(number); }
static Attribute attributeOf(Builder &builder, bool isOn) { return builder.getBoolAttr(isOn); }
static Attribute attributeOf(Builder &builder, double number) { return builder.getF64FloatAttr(number); }
static Attribute attributeOf(Builder &builder, const std::string &text) { return builder.getStringAttr(text); }
static Attribute attributeOf(Builder &builder, plan::DType type) {
  return TypeAttr::get(elementType(builder.getContext(), type));
}
template <typename Word>
  requires std::is_enum_v<Word>
static Attribute attributeOf(Builder &builder, Word word) {
  return builder.getStringAttr(textOf(plan::nameOf(word)));
}
static Attribute attributeOf(Builder &builder, const plan::Setting &setting) {
  return builder.getStrArrayAttr({setting.flag, setting.value, textOf(plan::nameOf(setting.resume))});
}
template <typename T> static Attribute attributeOf(Builder &builder, const std::vector<T> &list) {
  return builder.getArrayAttr(llvm::map_to_vector(list, [&](const T &entry) { return attributeOf(builder, entry); }));
}
static Attribute attributeOf(Builder &builder, const plan::Images &images) {
  return builder.getDictionaryAttr(llvm::map_to_vector(kImageNumbers, [&](const auto &number) {
    return builder.getNamedAttr(number.first, builder.getI64IntegerAttr(images.*number.second));
  }));
}
template <typename T> static Attribute attributeOf(Builder &builder, const std::optional<T> &value) {
  return attributeOf(builder, *value); // none is the default
}

// Each `read` sets the value, or returns what it expects.

static std::string read(Attribute attribute, int64_t &number) {
  auto integer = dyn_cast<IntegerAttr>(attribute);
  if (!integer || !integer.getType().isInteger(64))
    return "a whole number";
  number = integer.getInt();
  return number < 0 ? "0 or more" : "";
}
static std::string read(Attribute attribute, bool &isOn) {
  auto flag = dyn_cast<BoolAttr>(attribute);
  isOn = flag && flag.getValue();
  return flag ? "" : "true or false";
}
static std::string read(Attribute attribute, double &number) {
  auto real = dyn_cast<FloatAttr>(attribute);
  number = real ? real.getValueAsDouble() : 0;
  return real ? "" : "a number with a point";
}
static std::string read(Attribute attribute, std::string &text) {
  auto string = dyn_cast<StringAttr>(attribute);
  text = string ? string.str() : "";
  return string ? "" : "a text in quotes";
}
static std::string read(Attribute attribute, plan::DType &type) {
  auto element = dyn_cast<TypeAttr>(attribute);
  if (!element || !(element.getValue().isF32() || element.getValue().isBF16()))
    return "f32 or bf16";
  type = dtypeOf(element.getValue());
  return "";
}
template <typename Word>
  requires std::is_enum_v<Word>
static std::string read(Attribute attribute, Word &word) {
  auto name = dyn_cast<StringAttr>(attribute);
  const auto found = name ? plan::valueNamed<Word>(name.getValue()) : std::nullopt;
  word = found.value_or(word);
  return found ? "" : fmt::format("one of \"{}\"", fmt::join(plan::enumNames<Word>, "\", \""));
}
static std::string read(Attribute attribute, plan::Setting &setting);
template <typename T> static std::string read(Attribute attribute, std::vector<T> &list) {
  auto entries = dyn_cast<ArrayAttr>(attribute);
  std::string expected = entries ? "" : "a list";
  for (Attribute entry : entries ? entries.getValue() : ArrayRef<Attribute>())
    if (const std::string ofEntry = read(entry, list.emplace_back()); !ofEntry.empty())
      expected = "a list, each entry of it " + ofEntry;
  return expected;
}
static std::string read(Attribute attribute, plan::Setting &setting) {
  std::vector<std::string> words;
  const bool areWords = read(attribute, words).empty() && words.size() == 3;
  const auto resume = areWords ? plan::valueNamed<plan::Setting::Resume>(words[2]) : std::nullopt;
  if (!resume)
    return fmt::format("a flag, a value and one of \"{}\"",
                       fmt::join(plan::enumNames<plan::Setting::Resume>, "\", \""));
  setting = {words[0], words[1], *resume};
  return "";
}
static std::string read(Attribute attribute, plan::Images &images) {
  auto dictionary = dyn_cast<DictionaryAttr>(attribute);
  size_t found = 0;
  bool areNumbers = bool(dictionary);
  for (const auto &[name, member] : kImageNumbers)
    if (Attribute number = dictionary ? dictionary.get(name) : Attribute())
      areNumbers &= read(number, images.*member).empty(), ++found;
  if (areNumbers && found == dictionary.size())
    return "";
  return fmt::format(
      "whole numbers {{{}}}",
      fmt::join(llvm::map_range(kImageNumbers, [](const auto &number) { return number.first.str(); }), ", "));
}
template <typename T> static std::string read(Attribute attribute, std::optional<T> &value) {
  return read(attribute, value.emplace());
}

// --- The attribute -------------------------------------------------------------------------------------------

llvm::hash_code mgc::hash_value(const TrainingSettings &settings) {
  llvm::hash_code hash(0);
  forEachTrainingField([&](std::string_view, auto member) {
    const auto &value = settings.*member;
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (requires { std::hash<Value>()(value); })
      hash = llvm::hash_combine(hash, std::hash<Value>()(value));
  });
  return hash;
}

// The field spelt most like `name`, or all of them.
static std::string fieldsLike(StringRef name) {
  std::vector<std::string_view> all;
  std::string_view best;
  unsigned least = std::min<unsigned>(3, name.size() / 3) + 1;
  forEachTrainingField([&](std::string_view field, auto) {
    all.push_back(field);
    if (const unsigned distance = name.edit_distance(textOf(field), true, least); distance < least)
      least = distance, best = field;
  });
  return best.empty() ? fmt::format("expected one of {}", fmt::join(all, ", ")) : fmt::format("did you mean {}?", best);
}

// Sets the field of this name. What is expected instead of the value, or an empty text; nothing: there is no such field.
static std::optional<std::string> setField(TrainingSettings &settings, StringRef name, Attribute value) {
  std::optional<std::string> expected;
  forEachTrainingField([&](std::string_view field, auto member) {
    if (name == textOf(field))
      expected = read(value, settings.*member);
  });
  return expected;
}

Attribute TrainingAttr::parse(AsmParser &parser, Type) {
  TrainingSettings settings;
  llvm::StringSet<> seen;
  auto entry = [&]() -> ParseResult {
    std::string name;
    Attribute value;
    const SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeywordOrString(&name) || parser.parseEqual())
      return failure();
    const SMLoc ofValue = parser.getCurrentLocation();
    if (parser.parseAttribute(value))
      return failure();
    const std::optional<std::string> expected = setField(settings, name, value);
    if (!expected)
      return parser.emitError(where) << kTrainingAttr << " has no field '" << name << "'; " << fieldsLike(name);
    if (!seen.insert(name).second)
      return parser.emitError(where) << kTrainingAttr << ": " << name << " is given twice";
    if (!expected->empty())
      return parser.emitError(ofValue) << kTrainingAttr << ": " << name << " = " << value << "; expected " << *expected;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  return parser.getChecked<TrainingAttr>(parser.getContext(), settings);
}

void TrainingAttr::print(AsmPrinter &printer) const {
  Builder builder(getContext());
  bool isFirst = true;
  printer << "<";
  forEachTrainingField([&](std::string_view name, auto member) {
    if (getSettings().*member == TrainingSettings().*member)
      return;
    printer << (std::exchange(isFirst, false) ? "" : ", ") << textOf(name) << " = ";
    printer.printAttributeWithoutType(attributeOf(builder, getSettings().*member));
  });
  printer << ">";
}

LogicalResult TrainingAttr::verify(function_ref<InFlightDiagnostic()> emitError, TrainingSettings settings) {
  if (settings.rowsFactor != 0 && !(settings.rowsFactor >= 1))
    return emitError() << kTrainingAttr << ": moe_rows_factor = " << settings.rowsFactor
                       << "; expected 0, or at least 1: the mean of rows (training_c2)";
  if (settings.gradientType == plan::DType::f32 || settings.gradientType == settings.dtype)
    return success();
  return emitError() << kTrainingAttr << ": dtype = " << plan::nameOf(settings.dtype)
                     << ", gradient_dtype = " << plan::nameOf(settings.gradientType)
                     << "; expected gradients of that type or f32 (training_c1)";
}

const TrainingSettings &mgc::trainingOf(ModuleOp module) {
  static const TrainingSettings defaults;
  auto training = module->getAttrOfType<TrainingAttr>(kTrainingAttr);
  return training ? training.getSettings() : defaults;
}
