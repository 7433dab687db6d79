// "mgc": {"model": {..}} of a model.json or config.json: fields of the vocabulary (Vocabulary.h), in the place of what
// the family's reader has said, or, with "model_type": "mgc", all there is. So an architecture that no family has is
// written without C++:
//
//   {"model_type": "llama", .., "mgc": {"model": {
//       "layer": {"attention": {"qk_norm": {"norm": {"kind": "rms"}}}},
//       "layers": [{"every": 4, "from": 3, "attention": {"rope": null}}],
//       "head": {"softcap": 30}}}}
//
// `layer` holds for all layers; an entry of `layers` for some of them, after it: those from `from` to `to`, each
// `every`th. `tensors` names tensors of roles (Parameters.h) that the family has no names for, or others than these.
#pragma once

#include "model/Config.h"
#include "model/Description.h"

#include <map>

namespace mgc::frontend {

using NamedTensors = std::map<std::string, std::string>; // role -> tensor

// Edits the model and its layers; problems go to config.report().
NamedTensors readOverrides(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers);

// Sets what follows from other fields and was not said: the scale of scores, how much of a head rotates.
void complete(ModelDescription &model, std::vector<BlockDescription> &layers);

// Checks the fields against each other, whoever wrote them; problems go to `problems`.
void checkDescription(const ModelDescription &model, const std::vector<BlockDescription> &layers, Problems &problems);

} // namespace mgc::frontend
