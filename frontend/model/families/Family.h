// A family of models: one file here, one row in Families.def. docs/adding-a-model-family.md walks through
// one.
#pragma once

#include "frontend/model/Config.h"
#include "frontend/model/Description.h"
#include "frontend/model/Parameters.h"

namespace mgc::frontend {

// A field whose one supported value switches a feature off.
struct NeutralField {
  std::string_view key;
  std::string_view value; // JSON text
};

// The decoder of a model of several parts is a model of another family: the object under `field` is its config, and
// NestedNames says what its tensors are called.
struct NestedDecoder {
  std::string_view field = {}, begin = {}, prefix = {};
};

struct Family {
  std::string_view modelType;    // model_type
  std::string_view architecture; // the one class of `architectures` that has this head
  std::span<const std::string_view>
      ignoredFields;                           // no effect on training; kIgnoredFields are understood anyway
  std::span<const NeutralField> neutralFields; // kNeutralFields are understood anyway, but for those here
  TensorNames tensors;
  // Reads the fields into the model; problems go to config.report(). `layers` receives one block per layer;
  // it stays empty when the sizes are not usable.
  void (*read)(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers);
  // Rows in the place of tensors.ownRows where names depend on the model; null: they do not.
  std::span<const TensorRow> (*rowsOf)(const std::vector<BlockDescription> &layers) = nullptr;
  std::string_view oldArchitecture = {}; // its name before transformers had it; empty: none
  // Its decoder is read before `read`, which has the layers; no field: `read` reads it.
  NestedDecoder decoder = {};
  // The factor of embeddings, where the class multiplies all that its layers are given by it, also what stands in the place of
  // tokens; empty: of tokens alone.
  std::string_view embeddingScaleKey = {};
  // Of an object of this family within a config.json: sizes above all.
  std::span<const ClassDefault> classDefaults = {};
};

// Fields that every config.json may have, and nested ones: without effect, or of features that must be off,
// but for those of `neutral`.
void acceptCommonFields(Config &config, std::span<const NeutralField> neutral = {});

std::span<const Family *const> families();

// Reads a whole config.json (already parsed) into a model; `overrides` is its mgc.model (Overrides.h), null where it has none.
// Problems go to config.report().
void readModel(Config &config, Config *overrides, ModelDescription &model);

} // namespace mgc::frontend
