// See VocabularyPage.h.
#include "tools/commands/VocabularyPage.h"

#include "model/Vocabulary.h"
#include "model/families/Decoder.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

using frontend::Field;
using frontend::Of;
using Json = nlohmann::ordered_json;

// The type of a struct's member, without std::optional.
template <typename M> struct Inner {
  using Type = M;
  static constexpr bool isOptional = false;
};
template <typename M> struct Inner<std::optional<M>> {
  using Type = M;
  static constexpr bool isOptional = true;
};

template <typename E> std::vector<std::string> namesOf() {
  std::vector<std::string> names;
  for (const auto &[word, meaning] : frontend::wordsOf(Of<E>()))
    names.emplace_back(word);
  return names;
}

template <typename M>
constexpr bool isStruct =
    std::is_class_v<M> && !std::is_same_v<M, std::string> && !std::is_same_v<M, std::vector<double>>;

std::string rangeOf(const Field &field) {
  if (field.most >= frontend::kAnyNumber)
    return field.least <= -frontend::kAnyNumber ? "a number" : fmt::format("a number from {}", field.least);
  return fmt::format("{} to {}", field.least, field.most);
}

template <typename M> std::string valuesOf(const Field &field) {
  if constexpr (std::is_same_v<M, bool>)
    return "true or false";
  else if constexpr (std::is_enum_v<M>)
    return fmt::format("{}", fmt::join(namesOf<M>(), ", "));
  else if constexpr (std::is_same_v<M, std::string>)
    return fmt::format("{}", fmt::join(field.words, ", "));
  else if constexpr (std::is_same_v<M, std::vector<double>>)
    return "a list: each " + rangeOf(field);
  else
    return rangeOf(field);
}

// A row for each field, those of a part under its path.
class RowWriter {
public:
  template <typename T> void write(const std::string &path) {
    const std::string outer = std::exchange(path_, path);
    fields(*this, Of<T>());
    path_ = outer;
  }
  template <typename T, typename M> void operator()(const Field &field, M T::*) {
    using Type = typename Inner<M>::Type;
    const std::string path = path_ + std::string(field.key), orNull = Inner<M>::isOptional ? " or null" : "";
    if constexpr (isStruct<Type>) {
      text_ += fmt::format("| `{}` | an object{} | {} |\n", path, orNull, field.help);
      write<Type>(path + ".");
    } else {
      text_ += fmt::format("| `{}` | {}{} | {} |\n", path, valuesOf<Type>(field), orNull, field.help);
    }
  }
  std::string take() { return std::move(text_); }

private:
  std::string path_, text_;
};

class SchemaWriter {
public:
  template <typename T> static Json write() {
    SchemaWriter writer;
    fields(writer, Of<T>());
    return {{"type", "object"}, {"additionalProperties", false}, {"properties", writer.properties_}};
  }
  template <typename T, typename M> void operator()(const Field &field, M T::*) {
    using Type = typename Inner<M>::Type;
    Json schema = {{"description", field.help}};
    schema.update(schemaOf<Type>(field));
    if (Inner<M>::isOptional)
      schema["type"] = {schema["type"], "null"};
    properties_[std::string(field.key)] = schema;
  }

private:
  template <typename M> static Json schemaOf(const Field &field) {
    if constexpr (isStruct<M>)
      return write<M>();
    else if constexpr (std::is_same_v<M, bool>)
      return {{"type", "boolean"}};
    else if constexpr (std::is_enum_v<M>)
      return {{"type", "string"}, {"enum", namesOf<M>()}};
    else if constexpr (std::is_same_v<M, std::string>)
      return {{"type", "string"}, {"enum", std::vector<std::string>(field.words.begin(), field.words.end())}};
    else if constexpr (std::is_same_v<M, std::vector<double>>)
      return {{"type", "array"}, {"items", schemaOf<double>(field)}};
    else if constexpr (std::is_integral_v<M>)
      return {{"type", "integer"}, {"minimum", int64_t(field.least)}, {"maximum", int64_t(field.most)}};
    else
      return {{"type", "number"}, {"minimum", field.least}, {"maximum", field.most}};
  }

  Json properties_ = Json::object();
};

constexpr std::string_view kHead = R"(<!-- Made by `mgc options --model`; do not edit. -->

# The vocabulary of models

For people who change an architecture without C++. Every family of models is read into these fields, and they can be
written in a config.json or model.json under `"mgc": {"model": {..}}`: over what the family says, or, with
`"model_type": "mgc"`, in its place. A combination that no family has compiles too.

    {"model_type": "llama", .., "mgc": {"model": {
        "layer": {"attention": {"qk_norm": {"norm": {"kind": "rms"}}}},
        "layers": [{"every": 4, "from": 3, "attention": {"rope": null}}],
        "head": {"softcap": 30}}}}

- `layer` holds for all layers; each entry of `layers` for some of them, after it: from layer `from` (0) to layer `to`
  (the last), each `every`th (1).
- `layer_count` says how many layers there are.
- A field that is not written stays what the family says. A part that the family lacks begins with its defaults, which
  have no sizes: write them. null leaves a part out.
- `tensors` names the tensors of a checkpoint by [role](#roles), where the family has no name for one, or another:
  `{"attn.gate.weight": "model.layers.{}.self_attn.g_proj.weight"}`, `{}` the layer.

A field that is not understood, and values that do not fit each other, are refused by their path.

)";

constexpr std::string_view kRoles = R"(
## Roles

What holds a parameter where neither the family nor `tensors` says it. A role of an encoder's layer, embedding or norm
is that of the decoder behind `encoder.`, and so is its tensor. Letters of shapes are in model/Parameters.h.

| role | tensor | shape |
|---|---|---|
)";

std::string roleRows() {
  std::string rows;
  const frontend::TensorTable table(frontend::kWrittenTensors);
  for (const frontend::TensorRow &row : table.rows()) {
    std::string shape(row.dims); // "|" would end a cell
    for (size_t at = 0; (at = shape.find('|', at)) != shape.npos; at += 2)
      shape.insert(at, "\\");
    rows += fmt::format("| `{}` | `{}` | {} |\n", row.role, row.tensor, shape);
  }
  return rows;
}

std::string table(const std::string &rows) { return "| field | values | meaning |\n|---|---|---|\n" + rows; }

} // namespace

std::string vocabularyPage() {
  RowWriter model, layer;
  model.write<frontend::ModelDescription>("");
  layer.write<frontend::BlockDescription>("");
  return std::string(kHead) + "## The model\n\n" + table(model.take()) + "\n## A layer\n\n" + table(layer.take()) +
         std::string(kRoles) + roleRows();
}

Json vocabularySchema() {
  Json model = SchemaWriter::write<frontend::ModelDescription>();
  const Json layer = SchemaWriter::write<frontend::BlockDescription>();
  Json some = layer;
  for (const char *key : {"from", "to"})
    some["properties"][key] = {{"type", "integer"}, {"minimum", 0}};
  some["properties"]["every"] = {{"type", "integer"}, {"minimum", 1}};
  Json &properties = model["properties"];
  properties["layer_count"] = {{"type", "integer"}, {"minimum", 1}, {"maximum", frontend::kMaxLayers}};
  properties["layer"] = layer;
  properties["layers"] = {{"type", "array"}, {"items", some}};
  properties["tensors"] = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  return model;
}

} // namespace mgc::tools
