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

// A default that its own range leaves out is none: the field must be written.
template <typename M> std::string defaultOf(const Field &field, const M &value) {
  if constexpr (Inner<M>::isOptional)
    return "null";
  else if constexpr (std::is_enum_v<M>)
    return std::string(frontend::wordOf(value));
  else if constexpr (std::is_same_v<M, std::vector<double>>)
    return Json(value).dump();
  else if constexpr (std::is_same_v<M, std::string> || std::is_same_v<M, bool>)
    return fmt::format("{}", value);
  else
    return value < M(field.least) ? "required" : fmt::format("{}", value);
}

// A row for each field, those of a part under its path. Defaults are those of the structs.
class RowWriter {
public:
  template <typename T> std::string write(const std::string &path, const T &part = {}) {
    const std::string outer = std::exchange(path_, path);
    const void *outerPart = std::exchange(part_, &part);
    fields(*this, Of<T>());
    path_ = outer, part_ = outerPart;
    return text_;
  }
  template <typename T, typename M> void operator()(const Field &field, M T::*member) {
    using Type = typename Inner<M>::Type;
    const std::string path = path_ + std::string(field.key), orNull = Inner<M>::isOptional ? " or null" : "";
    const M &value = static_cast<const T *>(part_)->*member;
    if constexpr (isStruct<Type>) {
      text_ += fmt::format("| `{}` | an object{} | {} | {} |\n", path, orNull, Inner<M>::isOptional ? "null" : "",
                           field.help);
      if constexpr (Inner<M>::isOptional)
        write<Type>(path + ".");
      else
        write(path + ".", value);
    } else {
      text_ += fmt::format("| `{}` | {}{} | {} | {} |\n", path, valuesOf<Type>(field), orNull, defaultOf(field, value),
                           field.help);
    }
  }

private:
  std::string path_, text_;
  const void *part_ = nullptr;
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
  (the last), each `every`th (1). An entry has the fields of `layer` without that prefix: `attention.rope`.
- `layer_count` says how many layers there are.
- A field that is not written stays what the family says, and where no family says it, it has its default. A part that
  the family lacks begins with the defaults of its fields; those that are required have none. null leaves a part out.
- `tensors` names the tensors of a checkpoint by [role](#roles), where the family has no name for one, or another:
  `{"attn.gate.weight": "model.layers.{}.self_attn.g_proj.weight"}`, `{}` the layer.

A field that is not understood, and values that do not fit each other, are refused by their path.

A whole model, for `mgc compile model.json --seq 512 --gbs 8 --tp 2 --pp 2`:

    {"model_type": "mgc", "mgc": {"model": {
        "vocabulary": 32000, "hidden": 256, "positions": 2048, "layer_count": 4,
        "layer": {
            "attention_branch": {"before": {"kind": "rms"}},
            "attention": {"heads": 8, "groups": 2, "head_dim": 32, "rope": {"theta": 10000}},
            "mlp_branch": {"before": {"kind": "rms"}},
            "mlp": {"ffn": 768, "gated": true, "activation": "silu"}},
        "final_norm": {"kind": "rms"},
        "head": {"tied": true}}}}

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

std::string table(const std::string &rows) {
  return "| field | values | default | meaning |\n|---|---|---|---|\n" + rows;
}

} // namespace

std::string vocabularyPage() {
  return std::string(kHead) + "## The model\n\n" + table(RowWriter().write<frontend::ModelDescription>("")) +
         "\n## A layer\n\n" + table(RowWriter().write<frontend::BlockDescription>("layer.")) + std::string(kRoles) +
         roleRows();
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
