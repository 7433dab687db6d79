// Whether weights are of the model that a plan computes: what their config.json says, read as mgc compile reads it,
// against the config.json that the plan was compiled from. Shapes alone do not tell a rope theta, an activation or an
// epsilon.
#pragma once

#include "model/Description.h"

namespace mgc::frontend {

// A fact of the mathematics that trained weights belong to, under the name that people know.
struct ModelFact {
  std::string name, value;
};
// The facts of a layer, and of the embedding, head and sizes around the layers. Not among them: how weights are
// initialised; dropout and the padding token, which a continuation may change; the number of positions of models
// without a table of them.
std::vector<ModelFact> factsOf(const BlockDescription &layer);
std::vector<ModelFact> factsOf(const ModelDescription &model);

// One line per fact that differs, with both values; of facts of layers the first that differs.
std::vector<std::string> differencesBetween(const ModelDescription &weights, const ModelDescription &plan);

// `checkpoint` is a folder or a file of weights, whose config.json lies next to it. All well where there is none, or
// the plan has none.
Status verifySameModel(const std::string &planConfig, const std::string &checkpoint);

} // namespace mgc::frontend
