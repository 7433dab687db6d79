// The table of families, and what they have in common: fields without effect, distinct blocks, parameters.
#include "model/Overrides.h"
#include "model/families/Decoder.h"
#include "plan/Expand.h"
#include "plan/OwnModelType.h"
#include "runtime/base/Json.h"
#include <algorithm>
#include <cctype>

namespace mgc::frontend {

// A model that no family describes: all of it stands under "mgc": {"model": {..}} (Overrides.h).
static Family written() {
  Family family = {.modelType = plan::kOwnModelType, .tensors = kWrittenTensors, .isWritten = true};
  family.tensors.ofEncoder = {"", kOfEncoderRole};
  family.read = [](Reading &reading) {
    if (!reading.config.isSet("mgc"))
      reading.config.report().add("mgc.model is missing, but of model_type mgc it is required");
    reading.model.names = {.heads = "attention.heads",
                           .groups = "attention.groups",
                           .headDim = "attention.head_dim",
                           .ffn = "mlp.ffn",
                           .experts = "experts.count",
                           .expertFfn = "mlp.ffn",
                           .sharedFfn = "experts.shared.ffn",
                           .layers = "layer_count",
                           .positions = "positions",
                           .hidden = "hidden",
                           .encoderHeads = "encoder.layer.attention.heads",
                           .encoderFfn = "encoder.layer.mlp.ffn",
                           .encoderLayers = "encoder.layer_count",
                           .encoderHidden = "encoder.hidden",
                           .image = "encoder.patches"};
  };
  return family;
}

std::span<const Family *const> families() {
  static const Family kWritten = written();
  static const std::vector<const Family *> kAll = [] {
    std::vector<const Family *> all;
    for (std::span<const Family> table :
         {llamaFamilies(), windowFamilies(), gptFamilies(), slopeFamilies(), deepseekFamilies(), expertFamilies(),
          bertFamilies(), bartFamilies(), t5Families(), imageFamilies()})
      for (const Family &family : table)
        all.push_back(&family);
    std::ranges::sort(all, {}, &Family::modelType);
    all.push_back(&kWritten);
    return all;
  }();
  return kAll;
}

// Names, special tokens, storage and output options. Settings of generation are kGenerationFields.
static constexpr std::string_view kIgnoredFields[] = {"model_type",
                                                      "_name_or_path",
                                                      "name_or_path",
                                                      "transformers_version",
                                                      "torch_dtype",
                                                      "dtype",
                                                      "_attn_implementation",
                                                      "_attn_implementation_autoset",
                                                      "attn_implementation",
                                                      "gradient_checkpointing",
                                                      "sep_token_id",
                                                      "cls_token_id",
                                                      "unk_token_id",
                                                      "tokenizer_class",
                                                      "prefix",
                                                      "task_specific_params",
                                                      "finetuning_task",
                                                      "problem_type",
                                                      "id2label",
                                                      "label2id",
                                                      "num_labels",
                                                      "return_dict",
                                                      "torchscript",
                                                      "tf_legacy_loss",
                                                      "use_bfloat16",
                                                      "mgc"};

static constexpr NeutralField kNeutralFields[] = {{"is_encoder_decoder", "false"},
                                                  {"is_decoder", "false"},
                                                  {"add_cross_attention", "false"},
                                                  {"cross_attention_hidden_size", "null"},
                                                  {"tie_encoder_decoder", "false"},
                                                  {"chunk_size_feed_forward", "0"},
                                                  {"per_layer_config", "null"},
                                                  {"is_causal", "null"},
                                                  // Parts, which get_text_config() takes for the model.
                                                  {"text_config", "null"},
                                                  {"text_encoder", "null"},
                                                  {"decoder", "null"},
                                                  {"generator", "null"},
                                                  {"pruned_heads", "{}"}};

static std::vector<std::string> supportedFamilies() {
  std::vector<std::string> names;
  for (const Family *family : families())
    names.emplace_back(family->modelType);
  return names;
}

static const Family *findFamily(Config &config) {
  size_t before = config.report().count();
  std::string type = config.word("model_type", "");
  if (!config.isSet("model_type")) {
    config.report().add("model_type is missing, but required");
    config.report().hint("supported: {}", listOf(supportedFamilies()));
    return nullptr;
  }
  for (const Family *family : families())
    if (family->modelType == type || (!type.empty() && family->otherType == type))
      return family;
  if (config.report().count() == before) // it is a text
    config.refuse("model_type", "is not supported", "supported: " + listOf(supportedFamilies()));
  return nullptr;
}

void acceptCommonFields(Config &config, std::span<const NeutralField> neutral, std::string_view part) {
  config.ignore(kIgnoredFields);
  for (const NeutralField &field : kNeutralFields)
    if (field.key != part && std::ranges::find(neutral, field.key, &NeutralField::key) == neutral.end())
      config.expect(field.key, field.value);
}

static void checkCommon(Config &config, const Family &family) {
  if (const ClassFields *fields = classFieldsOf(family.modelType))
    config.setClass(*fields);
  acceptCommonFields(config, family.neutralFields, family.decoder.field);
  config.ignore(family.ignoredFields);
  for (const NeutralField &field : family.neutralFields)
    config.expect(field.key, field.value);
  if (config.isSet("quantization_config"))
    config.refuse(
        "quantization_config", "says that the weights are quantized; mgc trains from weights that are not",
        "train from the repository of the unquantized model, or from what transformers saves of this one after "
        "model.dequantize();\n  to train from the start, without weights, remove the field");
  config.ignore(std::initializer_list<std::string_view>{"quantization_config"});
}

static bool isSameName(std::string_view a, std::string_view b) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Names of classes are compared without their case: LLaMAForCausalLM. Files of the class without a head have all
// weights if the head has none of its own.
static void checkArchitectures(Config &config, const Family &family, const ModelDescription &model) {
  const ClassFields *fields = classFieldsOf(family.modelType);
  const bool hasOwnHead = !model.head.tied || model.head.transform || model.head.bias;
  const std::string_view base = fields && !hasOwnHead ? fields->base : "";
  const auto isOurs = [&](const std::string &name) {
    return isSameName(name, family.architecture) || name == family.oldArchitecture || name == base;
  };
  const std::vector<std::string> classes = config.words("architectures");
  if (!classes.empty() && std::ranges::none_of(classes, isOurs))
    config.refuse("architectures", "is not supported", fmt::format("supported: [\"{}\"]", family.architecture));
}

static void addLayers(ModelDescription &model, const std::vector<BlockDescription> &layers) {
  for (const BlockDescription &block : layers) {
    auto same = [&](const BlockKind &kind) { return kind.block == block; };
    auto it = std::find_if(model.kinds.begin(), model.kinds.end(), same);
    model.layers.push_back(it - model.kinds.begin());
    if (it == model.kinds.end())
      model.kinds.push_back({block, {}});
  }
}

static bool has(std::string_view text, std::string_view piece) { return text.find(piece) != text.npos; }

// A name has the hole of the layer, and that of the stack, where the family's has: else layers would share one tensor.
static void rename(TensorRow &row, std::string_view tensor, const std::vector<TensorRow> &rows, Problems &problems) {
  const bool isFit = !tensor.empty() && !tensor.starts_with("__") && has(tensor, "{}") == has(row.tensor, "{}") &&
                     has(tensor, plan::kStackHole) == has(row.tensor, plan::kStackHole) &&
                     std::ranges::all_of(tensor, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  const auto other = std::ranges::find(rows, tensor, &TensorRow::tensor);
  if (!isFit)
    problems.add("mgc.model.tensors: {} of {}; expected a name without spaces, with the holes of {}",
                 printable(std::string(tensor)), row.role, row.tensor);
  else if (other != rows.end() && other->role != row.role && row.view.empty())
    problems.add("mgc.model.tensors: {} of {} is the tensor of {} too", tensor, row.role, other->role);
  else
    row.tensor = tensor;
}

// Rows of the family and, for roles that it has no names for, those of written models; with the names that a file
// gives.
static std::vector<TensorRow> renamedRows(std::vector<TensorRow> rows, const NamedTensors &named, Config &overrides) {
  static const TensorTable kWrittenTable(kWrittenTensors);
  for (const TensorRow &row : kWrittenTable.rows())
    if (std::ranges::find(rows, row.role, &TensorRow::role) == rows.end())
      rows.push_back(row);
  for (const auto &[role, tensor] : named) {
    auto row = std::ranges::find(rows, role, &TensorRow::role);
    const bool isOfEncoder = role.starts_with(kOfEncoderRole);
    if (row == rows.end() && isOfEncoder) // a row like that of the decoder
      row = std::ranges::find(rows, std::string_view(role).substr(kOfEncoderRole.size()), &TensorRow::role);
    if (row == rows.end()) {
      overrides.report().add("mgc.model.tensors: there is no role {}", printable(role));
      overrides.report().hint("expected a role of docs/model-vocabulary.md, such as mlp.up.weight");
      continue;
    }
    if (row->role != role) {
      rows.push_back(*row);
      row = std::prev(rows.end());
      row->role = role;
    }
    rename(*row, tensor, rows, overrides.report());
  }
  return rows;
}

// Reads what the family's rows and functions say; `layers` stays as it is after a problem.
static void readLayers(const Family &family, Config &config, ModelDescription &model,
                       std::vector<BlockDescription> &layers) {
  Reading reading{config, model};
  const bool hasLayers = family.decoder.field.empty() && !family.isWritten;
  if (hasLayers) {
    model.names = family.names;
    for (std::string *name : {&model.names.heads, &model.names.groups, &model.names.ffn, &model.names.experts,
                              &model.names.layers, &model.names.positions, &model.names.hidden})
      *name = config.spelling(*name);
    DecoderFields fields = family.fields;
    if (fields.rope.theta == 0)
      fields.rope.theta = classFieldsOf(family.modelType)->theta;
    if (family.prepare)
      family.prepare(reading, fields);
    readDecoder(reading, fields);
  }
  if (family.read)
    family.read(reading);
  checkArchitectures(config, family, model);
  if (!hasLayers || !config.report().empty())
    return;
  layers = std::move(reading.layers);
  if (layers.empty())
    layers.assign(reading.count, reading.block);
}

// Reads the decoder that the family's NestedDecoder names. Null after a problem.
static const Family *readNested(Config &config, const Family &family, ModelDescription &model,
                                std::vector<BlockDescription> &layers) {
  std::optional<Config> part = config.child(family.decoder.field);
  if (!part)
    return nullptr;
  const Family *nested = findFamily(*part);
  if (!nested)
    return nullptr;
  if (!nested->decoder.field.empty()) {
    part->refuse("model_type", "has parts itself", "expected a decoder");
    return nullptr;
  }
  checkCommon(*part, *nested);
  if (part->isSet("mgc"))
    part->refuse("mgc", "is of the whole model", "expected it beside model_type of the whole, not of a part");
  readLayers(*nested, *part, model, layers);
  model.head = {.tied = model.head.tied}; // the joined class has a head of its own: a product without more
  part->finish(nested->modelType);
  if (!nested->embeddingScaleKey.empty() && model.embedding.scale != 1)
    part->refuse(nested->embeddingScaleKey, "multiplies what stands in the place of tokens too", "supported here: 1");
  if (model.encoder || model.objective != Objective::causal)
    part->refuse("model_type", "is no decoder alone", "expected one that predicts the next token");
  return config.report().empty() ? nested : nullptr;
}

// A family's names, by the layers.
static TensorNames namesOf(const Family &family, const std::vector<BlockDescription> &layers) {
  TensorNames tensors = family.tensors;
  if (family.rowsOf)
    tensors.ownRows = family.rowsOf(layers);
  return tensors;
}

void readModel(Config &config, Config *overrides, ModelDescription &model, bool ownHead) {
  const Family *family = findFamily(config);
  if (!family)
    return;
  model.family = family->modelType;
  checkCommon(config, *family);
  std::vector<BlockDescription> layers;
  const bool isNested = !family->decoder.field.empty();
  const Family *nested = isNested ? readNested(config, *family, model, layers) : nullptr;
  if (isNested && !nested) // the problems of the decoder come first
    return;
  readLayers(*family, config, model, layers);
  if (ownHead)
    model.head.tied = false;
  config.finish(model.family);
  if (!config.report().empty())
    return;
  TensorTable table = nested ? TensorTable(namesOf(*nested, layers), family->decoder.begin, family->decoder.prefix)
                             : TensorTable(namesOf(*family, layers));
  if (nested)
    table.add(namesOf(*family, layers));
  TensorNames tensors = family->tensors;
  tensors.rows = table.rows(), tensors.ownRows = {}, tensors.ignored = table.ignored();
  std::vector<TensorRow> renamed;
  const NamedTensors named = overrides ? readOverrides(*overrides, model, layers) : NamedTensors();
  if (overrides) {
    renamed = renamedRows(table.rows(), named, *overrides);
    tensors.rows = renamed;
    if (tensors.ofEncoder.second.empty())
      tensors.ofEncoder = {"", kOfEncoderRole};
  }
  complete(model, layers);
  if (config.report().empty())
    checkDescription(model, layers, config.report());
  if (!config.report().empty())
    return;
  addLayers(model, layers);
  if (!model.hasExperts())
    model.pooledAuxLoss = 0;
  if (Status status = bindParameters(model, tensors); !status.isOk())
    config.report().add("{}", status.message());
}

} // namespace mgc::frontend
