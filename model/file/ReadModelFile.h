// Reads the file of a model: config.json as Hugging Face publishes it, or model.json, the same keys and an optional
// object "mgc" with defaults for the flags of `mgc compile`.
#pragma once

#include "model/Config.h"
#include "model/Description.h"

#include <functional>

namespace mgc::frontend {

// Reads the object "mgc", which may be missing, all but its "model"; null: it is not read.
using ReadDefaults = std::function<void(std::optional<Config> &mgc)>;

// `path` may name the folder that holds a config.json. If the folder has weights too, they decide whether a head is tied
// that the config.json ties, as in transformers. Hostile input gives an error that lists all problems.
Result<ModelDescription> readModelFile(const std::string &path, const ReadDefaults &readDefaults = nullptr);

// The same from memory; `name` stands for the file in messages.
Result<ModelDescription> readModelText(const std::string &text, const std::string &name,
                                       const ReadDefaults &readDefaults = nullptr);

} // namespace mgc::frontend
