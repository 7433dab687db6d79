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
  bool fallback = true; // the class's value if the file has no such key
};
inline constexpr BiasField kAlwaysBiased = {}, kAttentionBias = {kQkv | kOut, "attention_bias", false},
                           kMlpBias = {kMlp, "mlp_bias", false};

// How a family spells what all decoders have, and what its class in transformers takes where a config.json is silent.
// Keys that are not here are those of Family::names, of which "" says that the class reads none: then what stands here
// holds.
struct DecoderFields {
  std::vector<BiasField> biases = {};
  bool hasHeadDim = true;            // the class reads head_dim; else a head is hidden_size / num_attention_heads
  int64_t headDim = 0;               // default of head_dim; 0: that too
  bool nullHeadDimIsDerived = false; // a head_dim of null is that too, whatever stands above
  bool groupsMayBeAbsent = false;    // then num_attention_heads
  // The norm of every branch and behind the layers, but for its epsilon, which the file may have.
  Norm norm = rmsNorm(1e-6);
  std::string_view activation = "silu";
  bool gated = true; // the mlp
  // > 0: default of the mlp's width over hidden; else the width is required.
  int64_t ffnOverHidden = 0;
  double dropout = 0;                       // dropout of the attention's probabilities
  std::optional<double> hiddenDropout = {}; // dropout of both branches; none: the class has no such dropout
  int64_t positions = 0;                    // 0: they are required
  bool isTied = false;
  double initializerRange = 0.02;
  bool hasRope = true;
  RopeFields rope = {};
  bool hasWindow = false;                   // sliding_window is of all layers; without a size there is none
  bool hasPadding = true;                   // the embedding of pad_token_id gets no gradient where it is a token
  std::optional<int64_t> paddingToken = {}; // where the key is missing
  bool isLatent = false;                    // heads are DeepSeek's: q_lora_rank, kv_lora_rank, qk_nope_head_dim, ..
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

// Sizes that an object of this family within a config.json may leave out: those of its class. Older versions of
// transformers wrote only what differs from them there. 0: it must stand there.
struct ClassSizes {
  int64_t vocabulary = 0, hidden = 0, ffn = 0, layers = 0, heads = 0, groups = 0, positions = 0;
};

extern const TensorNames kDecoderTensors; // Llama's, with every bias and norm that some family has
extern const TensorNames kWrittenTensors; // the same with all that an encoder of images has: a name for every role
// Llama's names with others for some roles.
TensorNames withRows(std::span<const TensorRow> rows);

struct Family {
  std::string_view modelType;                       // model_type
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
  ClassSizes classSizes = {};
};

// The tables of families, each in its own file.
std::span<const Family> llamaFamilies(), windowFamilies(), gptFamilies(), slopeFamilies(), deepseekFamilies(),
    expertFamilies(), bertFamilies(), bartFamilies(), t5Families(), imageFamilies();

std::span<const Family *const> families(); // all of them, in the order of model_type; mgc is last

// Fields that every config.json may have, and nested ones: without effect, or of features that must be off,
// but for those of `neutral`.
void acceptCommonFields(Config &config, std::span<const NeutralField> neutral = {});

// Reads a whole config.json (already parsed) into a model; `overrides` is its mgc.model (Overrides.h), null where it
// has none. Problems go to config.report().
void readModel(Config &config, Config *overrides, ModelDescription &model);

} // namespace mgc::frontend
