// A family of models is a row of a table: the fields of its config.json, what they mean, the names of its tensors, and,
// where rows do not say it, a function. docs/adding-a-model-family.md walks through one.
#pragma once

#include "model/Config.h"
#include "model/Description.h"
#include "model/Parameters.h"

namespace mgc::frontend {

// A field whose one supported value switches a feature off.
struct NeutralField {
  std::string_view key;
  std::string_view value; // JSON text
};

// Products of a layer that have biases if a field says so; without a key: always.
enum BiasPlace : unsigned { kQkv = 1, kOut = 2, kMlp = 4 };
struct BiasField {
  unsigned places = kQkv | kOut | kMlp;
  std::string_view key = {};
};
inline constexpr BiasField kAlwaysBiased = {}, kAttentionBias = {kQkv | kOut, "attention_bias"},
                           kMlpBias = {kMlp, "mlp_bias"};

// How a family spells what all decoders have, and what its class in transformers takes where a config.json is silent.
// Keys that are not here are those of Family::names, of which "" says that the class reads none: then what stands here
// holds.
struct DecoderFields {
  std::vector<BiasField> biases = {};
  bool hasHeadDim = true; // the class reads head_dim; else, or where it is null, hidden_size / num_attention_heads
  // The norm of every branch and behind the layers, but for its epsilon, which the file may have.
  Norm norm = rmsNorm(1e-6);
  std::string_view activation = "silu";
  bool gated = true; // the mlp
  // > 0: default of the mlp's width over hidden; else the width is required.
  int64_t ffnOverHidden = 0;
  bool hasHiddenDropout = false; // dropout of both branches
  bool hasRope = true;
  RopeFields rope = {};
  bool hasWindow = false; // sliding_window is of all layers; without a size there is none
  bool hasPadding = true; // the embedding of pad_token_id gets no gradient where it is a token
  bool isLatent = false;  // heads are DeepSeek's: q_lora_rank, kv_lora_rank, qk_nope_head_dim, ..
};

// A config.json on its way into a model.
struct Reading {
  Config &config;
  ModelDescription &model;
  BlockDescription block = {};               // every layer, but for what `each` edits
  int64_t count = 0;                         // number of layers
  std::vector<BlockDescription> layers = {}; // empty: `count` times `block`

  // Edits each layer by edit(layer, its number). Nothing once a problem was recorded: sizes and lists may not be usable
  // then.
  void each(const auto &edit) {
    if (!config.report().empty())
      return;
    layers.assign(count, block);
    for (int64_t number = 0; number < count; ++number)
      edit(layers[number], number);
  }
};

// The decoder of a model of several parts is a model of another family: the object under `field` is its config, and
// TensorTable says what its tensors are called.
struct NestedDecoder {
  std::string_view field = {}, begin = {}, prefix = {};
};

extern const TensorNames kDecoderTensors; // Llama's, with every bias and norm that some family has
extern const TensorNames kWrittenTensors; // the same with all that an encoder of images has: a name for every role
// Llama's names with others for some roles.
TensorNames withRows(std::span<const TensorRow> rows);

struct Family {
  std::string_view modelType;                       // model_type
  std::string_view otherType = {};                  // a model_type of the same class; empty: none
  std::string_view architecture;                    // the one class of `architectures` that has this head
  std::string_view oldArchitecture = {};            // its name before transformers had it; empty: none
  std::vector<std::string_view> ignoredFields = {}; // no effect on training; kIgnoredFields are understood anyway
  std::vector<NeutralField> neutralFields = {};     // kNeutralFields are understood anyway, but for those here
  TensorNames tensors = kDecoderTensors;
  // Rows in the place of tensors.ownRows where names depend on the model; null: they do not.
  std::span<const TensorRow> (*rowsOf)(const std::vector<BlockDescription> &layers) = nullptr;
  KeyNames names = {};
  DecoderFields fields = {};
  // Edits names and fields where the file decides on them, before they are read.
  void (*prepare)(Reading &reading, DecoderFields &fields) = nullptr;
  // Reads what no row says, and sets it over what all decoders have. Problems go to config.report().
  void (*read)(Reading &reading) = nullptr;
  bool isWritten = false; // its layers are those of mgc.model; nothing of a decoder is read
  // Its decoder is read before `read`, and has the layers; no field: rows above say how it is read.
  NestedDecoder decoder = {};
  // The factor of embeddings, where the class multiplies all that its layers are given by it, also what stands in the
  // place of tokens; empty: of tokens alone.
  std::string_view embeddingScaleKey = {};
};

// The tables of families, each in its own file.
std::span<const Family> llamaFamilies(), windowFamilies(), gptFamilies(), slopeFamilies(), deepseekFamilies(),
    expertFamilies(), bertFamilies(), bartFamilies(), t5Families(), imageFamilies();

std::span<const Family *const> families(); // all of them, in the order of model_type; mgc is last

// Fields that every config.json may have, and nested ones: without effect, or of features that must be off,
// but for those of `neutral`, and for the object of a `part` that is read.
void acceptCommonFields(Config &config, std::span<const NeutralField> neutral = {}, std::string_view part = {});

// Reads a whole config.json (already parsed) into a model; `overrides` is its mgc.model (Overrides.h), null where it
// has none; with `ownHead` no head is tied, whatever the file says. Problems go to config.report().
void readModel(Config &config, Config *overrides, ModelDescription &model, bool ownHead = false);

} // namespace mgc::frontend
