// Reads a model file: config.json as Hugging Face publishes it, or model.json, the same keys plus an optional
// object "mgc" with defaults for the flags of `mgc compile`.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

struct ModelFile {
  ModelDescription model;
  LayoutOptions defaults; // options of "mgc"
};

// `path` may name the folder that holds a config.json. Hostile input gives an error that lists all problems.
Result<ModelFile> loadModel(const std::string &path);

// The same from memory; `name` stands for the file in messages.
Result<ModelFile> parseModel(const std::string &text, const std::string &name);

} // namespace mgc::frontend
